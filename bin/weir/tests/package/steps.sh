# From a fresh Debian with NAT to a protected uplink and back, as root, in a virtual machine. `package.rs` puts the
# commands of README's "Install" into readme.sh, and a step for each promise of docs/install.md here.
set -eu
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root DEBIAN_FRONTEND=noninteractive
cd /root
trap '[ $? = 0 ] || journalctl --no-pager -n 30' EXIT
now() { cut -d ' ' -f 1 /proc/uptime; }
step() { echo "STEP $(now) $*"; }
fails() {
    if "$@"; then echo "it should have failed: $*"; exit 1; fi
}
pinged() { ip netns exec host ping -q -c 1 -W 2 203.0.113.1 >/dev/null; }
within_ten_seconds() {
    for _ in 1 2 3 4 5 6 7 8 9; do
        if "$@"; then return; fi
        sleep 1
    done
    "$@"
}
page() {
    bash -c 'exec 3<>/dev/tcp/127.0.0.1/8080; printf "GET / HTTP/1.0\r\nHost: 127.0.0.1:8080\r\n\r\n" >&3; head -n 1 <&3' |
        grep "200 OK"
}
shows() { weir show "$1" --json | grep "$2"; }
rate() { weir show ports --json | tr -d ' \n' | grep -q "$1"; }

rules() { nft -s list table ip home; ip -o address show scope global; ip route; ip rule; }

step "two networks, and a kernel that translates and filters between them"
depmod
ip netns add host
ip netns add net
ip link add eth0 type veth peer name h0 netns host
ip link add eth1 type veth peer name n0 netns net
ip address add 192.168.7.1/24 dev eth0
ip address add 203.0.113.2/24 dev eth1
ip link set eth0 up
ip link set eth1 up
ip -n host link set h0 up
ip -n net link set n0 up
ip -n host address add 192.168.7.2/24 dev h0
ip -n net address add 203.0.113.1/24 dev n0
ip -n host route add default via 192.168.7.1
ip route add default via 203.0.113.1
echo 1 >/proc/sys/net/ipv4/ip_forward
nft -f - <<END
table ip home {
    chain translate { type nat hook postrouting priority 100; oifname eth1 masquerade; }
    chain guard {
        type filter hook forward priority 0; policy drop;
        iifname eth1 ct state established,related accept
        iifname eth0 oifname eth1 accept
    }
}
END
pinged
rules >before

step "README: Install"
began=$(now)
# The operator tries the first command until Ctrl-C.
sed -i '/^weir queue/{/--save/!s/^/timeout --preserve-status -s INT 10 /}' readme.sh
sh -eux ./readme.sh
pinged
ended=$(now)
echo "INSTALLED $began $ended"

step "the service protects the uplink"
systemctl is-active weir@eth1
systemctl is-enabled weir@eth1
pinged
weir show ports
rate 38000000
rate 95000000
[ "$(weir get port.up.rate)" = "38 Mbit" ]
rules >after
cmp before after
journalctl --no-pager -u weir@eth1 | tail -n 5
zcat /usr/share/doc/weir/third-party-licenses.gz | grep -q tokio

step "the service may serve the page, and find the rate by pings of reflectors that are allowed"
weir set page=127.0.0.1:8080 port.up.rate=auto 'port.up.reflectors="203.0.113.1"'
within_ten_seconds page
within_ten_seconds shows rates IPAddressAllow
mkdir /etc/systemd/system/weir@eth1.service.d
printf '[Service]\nIPAddressAllow=203.0.113.1\n' >/etc/systemd/system/weir@eth1.service.d/override.conf
systemctl daemon-reload
within_ten_seconds shows reflectors answers
rm -r /etc/systemd/system/weir@eth1.service.d

step "a second service runs beside the first"
weir init --uplink eth0 --rate "50 Mbit" --out /etc/weir/weir.toml
systemctl start weir
fails weir show ports
weir show ports --json --socket /run/weir/weir.sock | grep eth0
weir show ports --json --socket /run/weir@eth1/weir.sock | grep eth1
pinged
systemctl stop weir
weir show ports

step "a configuration is not overwritten, and not replaced by a wrong one"
fails weir init --out /etc/weir/weir.toml
fails weir queue eth1 --up "39 Mbit" --save
sed -i 's/^rate = "38 Mbit"/rate = "20 Mbit"/' /etc/weir/eth1.toml
systemctl reload weir@eth1
rate 20000000
cp /etc/weir/eth1.toml /root/good.toml
echo 'rat = 1' >>/etc/weir/eth1.toml
fails systemctl reload weir@eth1
rate 20000000
cp /root/good.toml /etc/weir/eth1.toml

step "an upgrade loses the uplink for less than a second"
before=$(systemctl show -P MainPID weir@eth1)
ip netns exec host ping -q -i 0.1 -w 300 203.0.113.1 >ping.txt &
ping=$!
apt-get install -q ./new/weir_*.deb
weir show status
after=$(systemctl show -P MainPID weir@eth1)
sleep 1
kill -INT $ping
wait $ping || true
cat ping.txt
sent=$(sed -n 's/^\([0-9]*\) packets transmitted.*/\1/p' ping.txt)
received=$(sed -n 's/.* \([0-9]*\) received.*/\1/p' ping.txt)
[ $((sent - received)) -lt 10 ]
[ "$before" != "$after" ]
cmp /root/good.toml /etc/weir/eth1.toml

step "a new version that refuses the configuration does not replace the old one"
echo 'rat = 1' >>/etc/weir/eth1.toml
dpkg -i new/weir_*.deb
[ "$after" = "$(systemctl show -P MainPID weir@eth1)" ]
cp /root/good.toml /etc/weir/eth1.toml

step "without a configuration the service does not start"
systemctl stop weir@eth1
mv /etc/weir/eth1.toml /root/good.toml
fails systemctl start weir@eth1
fails systemctl is-active weir@eth1
mv /root/good.toml /etc/weir/eth1.toml
systemctl start weir@eth1

step "a removal gives the uplink back to the kernel, and keeps the configuration"
apt-get remove -q -y weir
pinged
[ -e /etc/weir/eth1.toml ]
fails pidof weir

step "a purge leaves nothing"
apt-get purge -q -y weir
for left in /etc/weir /usr/bin/weir /run/weir@eth1 /usr/share/doc/weir /etc/systemd/system/multi-user.target.wants/weir@eth1.service; do
    fails ls "$left"
done
pinged
step "done"
echo "GUEST: all is well"
