//! The protocols in which the server speaks first, in text: SMTP, POP3, IMAP, FTP, and SSH's banner.
//!
//! ```text
//!  220 mail.example ESMTP      220 ftp.example FTP      +OK ready      * OK ready      SSH-2.0-name
//! ```
//!
//! They are here because of TLS: a connection that begins with one of them and later switches to TLS (RFC 3207,
//! STARTTLS) is an encrypted mail or file transfer, which a policy may treat differently from TLS itself.

use crate::finding::{Evidence, Finding, Reading};
use crate::kind::Kind;

/// Longest banner (RFC 4253, section 4.2); greetings of mail have up to 512 bytes.
const LINE_MAX: usize = 512;

/// Reads the first bytes of a direction of a TCP connection.
pub(crate) fn stream(bytes: &[u8]) -> Reading {
    let line = &bytes[..bytes.len().min(LINE_MAX)];
    let Some(end) = line.iter().position(|b| *b == b'\n') else {
        return Reading::No; // these lines come in one segment
    };
    let line = line[..end].trim_ascii_end();
    let Ok(text) = std::str::from_utf8(line) else {
        return Reading::No;
    };
    match kind(text) {
        Some(kind) => Reading::Found(Finding::new(kind, Evidence::Message)),
        None => Reading::No,
    }
}

fn kind(line: &str) -> Option<Kind> {
    let upper = line.to_ascii_uppercase();
    let word = upper.split([' ', '-']).next().unwrap_or_default();
    match word {
        "220" if upper.contains("FTP") => Some(Kind::Ftp),
        "220" | "EHLO" | "HELO" => {
            let is_mail = word != "220" || upper.contains("SMTP") || upper.contains("MAIL");
            is_mail.then_some(Kind::Smtp)
        }
        "+OK" => Some(Kind::Pop3),
        "*" if upper.starts_with("* OK") || upper.starts_with("* PREAUTH") => Some(Kind::Imap),
        "SSH" if line.starts_with("SSH-2.0-") || line.starts_with("SSH-1.") => Some(Kind::Ssh),
        // The name of a user is FTP's or POP3's first command; FTP has no CAPA and no tagged commands.
        "CAPA" => Some(Kind::Pop3),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn greetings_are_recognised_by_their_first_words() {
        let read = |text: &str| match stream(text.as_bytes()) {
            Reading::Found(finding) => Some(finding.kind),
            _ => None,
        };
        assert_eq!(read("220 mail.example ESMTP ready\r\n"), Some(Kind::Smtp));
        assert_eq!(read("EHLO me\r\n"), Some(Kind::Smtp));
        assert_eq!(read("220-Welcome to this FTP server\r\n"), Some(Kind::Ftp));
        assert_eq!(read("+OK ready\r\n"), Some(Kind::Pop3));
        assert_eq!(read("* OK IMAP4rev1\r\n"), Some(Kind::Imap));
        assert_eq!(read("SSH-2.0-OpenSSH_9.9\r\n"), Some(Kind::Ssh));
        assert_eq!(
            read("220 hello\r\n"),
            None,
            "a number alone is none of them"
        );
        assert_eq!(read("SSH-2.0-OpenSSH_9.9"), None, "no line");
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            stream(&bytes);
        }
    }
}
