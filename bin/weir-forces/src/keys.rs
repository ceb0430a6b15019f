//! `weir keys`: a certificate and its key, for a control element or a forwarding element.

use std::path::Path;

use weir::Failure;
use weir::output::print;
use weir_forces_live::enrol::files::Files;

/// Generates `NAME.crt` and `NAME.key`, and prints the certificate's fingerprint.
pub(crate) fn run(name: &Path, days: u32) -> Result<(), Failure> {
    let common = common_name(name)?;
    let files = Files::named(name);
    // Check before generating anything: a name that is already in use is the usual mistake.
    for path in [&files.certificate, &files.key] {
        if path.symlink_metadata().is_ok() {
            return Err(failed(path, "the file exists and is not overwritten"));
        }
    }
    let made = files.generate(common, days);
    let made = made.map_err(|e| Failure::Run(e.to_string()))?;
    let (certificate, key) = (files.certificate.display(), files.key.display());
    print(&format!(
        "{certificate}: the certificate; copy it to the peers\n{key}: the key; keep it here\nSHA-256 {}\n\
         valid until {}\n",
        made.fingerprint, made.valid_until
    ))
}

/// The name within the certificate: the last part of the path.
fn common_name(name: &Path) -> Result<&str, Failure> {
    let usage = |why: &str| Failure::Usage(format!("{}: {why}", name.display()));
    let last = name.file_name().and_then(|last| last.to_str());
    let last =
        last.ok_or_else(|| usage("this is not a file name; give one as in `weir keys edge-1`"))?;
    match last.strip_suffix(".crt").or(last.strip_suffix(".key")) {
        Some(bare) => Err(usage(&format!("give the name without its ending: {bare}"))),
        None => Ok(last),
    }
}

fn failed(path: &Path, why: impl std::fmt::Display) -> Failure {
    Failure::Run(format!("cannot write {}: {why}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use weir_forces_live::tml::Identity;

    fn error(name: &Path) -> String {
        run(name, 365)
            .map_err(|failure| failure.to_string())
            .unwrap_err()
    }

    #[test]
    fn keys_are_made_once_and_work() {
        let folder = std::env::temp_dir().join(format!("weir-keys-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let name = folder.join("edge-1");
        assert!(run(&name, 365).is_ok());
        let (certificate, key) = (folder.join("edge-1.crt"), folder.join("edge-1.key"));
        let mode = fs::metadata(&key).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(Identity::read(&certificate, &key).is_ok());

        let before = fs::read(&key).unwrap();
        assert!(error(&name).contains("not overwritten"));
        fs::remove_file(&certificate).unwrap();
        assert!(error(&name).contains("edge-1.key: the file exists"));
        assert_eq!(fs::read(&key).unwrap(), before);
        assert!(error(&folder.join("edge-2.crt")).contains("without its ending: edge-2"));
        assert!(error(&folder.join("nowhere/edge-2")).contains("nowhere/edge-2.key"));
        assert!(error(Path::new("..")).contains("weir keys edge-1"));
        fs::remove_dir_all(&folder).unwrap();
    }
}
