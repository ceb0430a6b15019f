//! The SNMP client against Debian's snmpd, in a namespace.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use crate::common::{Stopped, eventually, in_namespace, run};
use weir_forces_live::snmp::{Client, Sample, Secrets, SnmpError, Target};

const PORT: u16 = 1161;
const COMMUNITY: &str = "community = \"public\"";
const PRIVATE: &str = "user = \"weir\"\nauth = \"sha256\"\nauth_password = \"an auth password\"\n\
                       privacy = \"aes\"\nprivacy_password = \"a private password\"";
const AUTHENTIC: &str = "user = \"open\"\nauth = \"sha1\"\nauth_password = \"an auth password\"";

/// An agent, and the directory with its files.
struct Agent(Option<Stopped>, PathBuf);

impl Agent {
    fn start() -> Self {
        let folder = std::env::temp_dir().join(format!("weir-snmpd-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let text = format!(
            "agentAddress udp:127.0.0.1:{PORT}\nrocommunity public\n\
             createUser weir SHA-256 \"an auth password\" AES \"a private password\"\nrouser weir priv\n\
             createUser open SHA \"an auth password\"\nrouser open auth\n"
        );
        std::fs::write(folder.join("snmpd.conf"), text).unwrap();
        let mut agent = Self(None, folder);
        agent.run();
        agent
    }

    fn run(&mut self) {
        let snmpd = Command::new("snmpd")
            .args(["-f", "-Ln", "-C", "-I", "-smux", "-c"])
            .arg(self.1.join("snmpd.conf"))
            .env("SNMP_PERSISTENT_DIR", self.1.join("state")) // it writes a snmpd.conf there
            .env("MIBS", "")
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        self.0 = Some(Stopped(
            snmpd.expect("scripts/install-packages installs snmpd"),
        ));
        eventually("snmpd listens", || {
            run("ss -lun").contains(&format!(":{PORT}"))
        });
    }

    fn stop(&mut self) {
        self.0 = None;
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.stop();
        let _ = std::fs::remove_dir_all(&self.1);
    }
}

fn client(port: u16, secrets: &str) -> Client {
    Client::new(Target {
        address: SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
        secrets: Secrets::parse(secrets).unwrap(),
        timeout: Duration::from_secs(2),
    })
}

fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().unwrap()
}

/// The samples of these ports.
fn sample(client: &mut Client, ports: &[&str]) -> Result<Vec<(Arc<str>, Sample)>, SnmpError> {
    let runtime = runtime();
    let ports: Vec<Arc<str>> = ports.iter().map(|port| (*port).into()).collect();
    runtime.block_on(client.sample(&ports))
}

#[test]
fn counters_of_an_agent_are_those_of_the_interface() {
    in_namespace(|| {
        run("ip link add out type veth peer name in");
        run("ip address add 10.0.9.1/24 dev out && ip link set out up && ip link set in up");
        run("ip neighbour add 10.0.9.2 lladdr 02:00:00:00:00:02 dev out");
        let _agent = Agent::start();
        let socket = UdpSocket::bind("10.0.9.1:0").unwrap();
        for secrets in [COMMUNITY, AUTHENTIC, PRIVATE] {
            let runtime = runtime();
            let mut client = client(PORT, secrets);
            let ports: [Arc<str>; 2] = ["out".into(), "none".into()];
            runtime.block_on(async {
                let first = client.sample(&ports).await.unwrap();
                let [(name, first)] = &first[..] else {
                    panic!("{first:?}")
                };
                assert_eq!((&**name, first.sent.packets), ("out", 0));
                for _ in 0..200 {
                    socket.send_to(&[0; 958], "10.0.9.2:9").unwrap();
                }
                // The agent updates its copy of the counters every few seconds.
                let mut sent = first.sent;
                for _ in 0..100 {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    let next = client.sample(&ports).await.unwrap();
                    assert!(next[0].1.sent.packets >= sent.packets);
                    sent = next[0].1.sent;
                    if sent.packets >= 200 {
                        break;
                    }
                }
                // The kernel itself sends a few packets (IPv6).
                assert!((200..300).contains(&sent.packets), "{secrets}: {sent:?}");
                assert!(
                    (200_000..230_000).contains(&sent.bytes),
                    "{secrets}: {sent:?}"
                );
            });
        }
    });
}

#[test]
fn wrong_secrets_and_dead_agents_are_errors() {
    in_namespace(|| {
        let mut agent = Agent::start();
        let why = |secrets: &str| {
            sample(&mut client(PORT, secrets), &["lo"])
                .unwrap_err()
                .to_string()
        };
        assert!(why("community = \"secret\"").contains("check the community or the user"));
        let refused = [
            PRIVATE.replace("\"weir\"", "\"nobody\""),
            PRIVATE.replace("an auth", "another auth"),
            PRIVATE.replace("a private", "another private"),
            // This user requires encryption.
            PRIVATE.lines().take(3).collect::<Vec<_>>().join("\n"),
        ];
        for secrets in refused {
            let why = why(&secrets);
            assert!(!why.is_empty(), "{why}");
            println!("{why}");
        }
        agent.stop();
        let why = why(COMMUNITY);
        assert!(why.contains("no SNMP agent is listening there"), "{why}");
        // Sampling works again when the agent is back.
        let runtime = runtime();
        let mut client = client(PORT, PRIVATE);
        let ports: [Arc<str>; 1] = ["lo".into()];
        for _ in 0..2 {
            agent.run();
            assert_eq!(runtime.block_on(client.sample(&ports)).unwrap().len(), 1);
            agent.stop();
            assert!(runtime.block_on(client.sample(&ports)).is_err());
        }
    });
}

#[test]
fn an_agent_that_lies_is_an_error_in_bounded_time() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    socket
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    // Every answer is wrong in a different way: the request itself, its first half, noise, an empty datagram, no
    // answer.
    let lies = std::thread::spawn(move || {
        let mut buffer = [0; 2048];
        for lie in 0..5_u8 {
            let (len, from) = socket.recv_from(&mut buffer).unwrap();
            let answer = match lie {
                0 => buffer[..len].to_vec(),
                1 => buffer[..len / 2].to_vec(),
                2 => vec![0xa5; 1400],
                3 => Vec::new(),
                _ => continue,
            };
            socket.send_to(&answer, from).unwrap();
        }
    });
    let mut client = client(port, COMMUNITY);
    for lie in 0..5 {
        assert!(sample(&mut client, &["lo"]).is_err(), "{lie}");
    }
    lies.join().unwrap();
}
