//! Suites: loads with their own disciplines and tables, each with a page of `docs/`.
//!
//! A page contains the summary of its suite between marks; the text around it is written by hand.

mod attacks;
mod comparison;
mod everyday;

use std::fs;
use std::path::{Path, PathBuf};

use super::load::Load;
use super::{Chosen, run_all};
use crate::error::Error;
use crate::options::RunOptions;
use crate::report::{make, put};
use crate::scenario::source::{BUILT_IN, title};

/// A suite.
#[derive(Debug)]
pub struct Suite {
    /// The name of the suite, of its page, and of the file with all of its tables.
    pub name: &'static str,
    /// Purpose of the loads and the page, in a few words.
    pub about: &'static str,
    /// The folders of its scenarios.
    folders: &'static [&'static str],
    /// The text between the marks of the page.
    summary: fn(&[Load]) -> String,
    /// All tables.
    tables: fn(&[Load]) -> String,
    /// The file of a picture that belongs to the page, and the picture.
    picture: Option<(&'static str, Picture)>,
}

/// A picture as SVG.
type Picture = fn(&[Load]) -> Option<String>;

/// All suites.
pub const SUITES: [&Suite; 3] = [&comparison::SUITE, &attacks::SUITE, &everyday::SUITE];

impl Suite {
    /// The loads, in the order of the page; a scenario without a title is a part of others.
    pub fn loads(&self) -> impl Iterator<Item = Chosen> {
        let all = self.folders.iter().flat_map(|folder| {
            BUILT_IN.iter().filter_map(move |(scenario, text)| {
                let name = scenario.strip_prefix(folder)?.strip_prefix('/')?;
                (!title(text).is_empty()).then_some((name, scenario, *text))
            })
        });
        all.map(|(name, scenario, text)| Chosen::built_in(name, scenario, text))
    }

    /// Runs these loads of the suite.
    ///
    /// # Errors
    ///
    /// All errors of a run. All loads are checked before the first one runs.
    pub fn run(&self, loads: &[Chosen], options: &RunOptions) -> Result<Vec<Load>, Error> {
        let runs = loads.iter().map(|load| (load, load.options(options)));
        let loaded = run_all(&runs.collect::<Vec<_>>(), false)?;
        let results = loaded.iter().flat_map(|loaded| {
            let results = loaded.ran.results().into_iter();
            results.flat_map(|result| Load::all(&loaded.name, result))
        });
        Ok(results.collect())
    }

    /// Writes the tables of these loads into `folder`, which is created if necessary; returns the path of the file.
    ///
    /// # Errors
    ///
    /// The folder or the file cannot be written.
    pub fn write(&self, folder: &Path, loads: &[Load]) -> Result<PathBuf, Error> {
        make(folder)?;
        put(
            folder,
            &format!("{}.md", self.name),
            self.text(loads).as_bytes(),
        )
    }

    /// The tables of these loads, in Markdown.
    pub fn text(&self, loads: &[Load]) -> String {
        format!("# Tables of `{}`\n{}", self.command(), (self.tables)(loads))
    }

    /// Replaces the summary in the page, and the picture, below the repository's folder `root`; returns their paths.
    ///
    /// # Errors
    ///
    /// A page without the marks, or a file that cannot be read or written.
    pub fn document(&self, root: &Path, loads: &[Load]) -> Result<Vec<PathBuf>, Error> {
        let mut files = vec![self.page(root, &(self.summary)(loads))?];
        if let Some((file, draw)) = self.picture {
            files.extend(draw(loads).map(|svg| (root.join("docs").join(file), svg)));
        }
        for (path, content) in &files {
            fs::write(path, content).map_err(not_updated(path))?;
        }
        Ok(files.into_iter().map(|(path, _)| path).collect())
    }

    /// Checks that [`Self::document`] will find the page and its marks.
    ///
    /// # Errors
    ///
    /// Errors of [`Self::document`]; a file that cannot be written is not among them.
    pub fn check_page(&self, root: &Path) -> Result<(), Error> {
        self.page(root, "").map(drop)
    }

    /// The path of the page, and the page with this summary.
    fn page(&self, root: &Path, summary: &str) -> Result<(PathBuf, String), Error> {
        let page = root.join("docs").join(self.name).with_extension("md");
        let text = fs::read_to_string(&page).map_err(not_updated(&page))?;
        let text = replaced(&text, &self.marks(), summary).ok_or_else(|| {
            let why = std::io::Error::other("the marks of the summary are missing");
            not_updated(&page)(why)
        })?;
        Ok((page, text))
    }

    fn command(&self) -> String {
        format!("weir compare --suite {}", self.name)
    }

    /// The marks around the summary.
    fn marks(&self) -> [String; 2] {
        let command = self.command();
        [
            format!("<!-- summary, measured by `{command}`: do not edit -->\n"),
            "<!-- end of the summary -->\n".to_owned(),
        ]
    }
}

fn not_updated(path: &Path) -> impl FnOnce(std::io::Error) -> Error + use<> {
    Error::io(format!("cannot update {}", path.display()))
}

/// The text, with the part between the marks replaced.
fn replaced(text: &str, [begin, end]: &[String; 2], summary: &str) -> Option<String> {
    let (before, rest) = text.split_once(begin)?;
    let (_, after) = rest.split_once(end)?;
    Some(format!("{before}{begin}{summary}{end}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUITE: Suite = Suite {
        name: "comparison",
        about: "",
        folders: &["everyday"],
        summary: |_| "new\n".to_owned(),
        tables: |_| "\n## One\n".to_owned(),
        picture: None,
    };

    #[test]
    fn every_suite_has_loads_and_a_page_with_marks() {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        for suite in SUITES {
            assert!(suite.loads().count() > 2, "{}", suite.name);
            let page = fs::read_to_string(docs.join(suite.name).with_extension("md")).unwrap();
            let marks = suite.marks();
            assert!(replaced(&page, &marks, "").is_some(), "{marks:?}");
        }
    }

    #[test]
    fn the_summary_is_replaced() {
        let root = std::env::temp_dir().join(format!("weir-suite-{}", std::process::id()));
        let page = root.join("docs/comparison.md");
        fs::create_dir_all(root.join("docs")).unwrap();
        let [begin, end] = SUITE.marks();
        fs::write(&page, format!("by hand\n{begin}old\n{end}by hand too\n")).unwrap();
        SUITE.document(&root, &[]).unwrap();
        let expected = format!("by hand\n{begin}new\n{end}by hand too\n");
        assert_eq!(fs::read_to_string(&page).unwrap(), expected);
        let tables = "# Tables of `weir compare --suite comparison`\n\n## One\n";
        assert_eq!(SUITE.text(&[]), tables);
        fs::write(&page, "by hand\n").unwrap();
        assert!(SUITE.document(&root, &[]).is_err());
        fs::remove_dir_all(&root).unwrap();
    }
}
