//! The terminal: an alternate screen as long as this value lives, and the keys.
//!
//! The ordinary screen is restored however the program ends: by a key, a signal, an error or a panic.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use crossterm::style::{Attribute, Print, SetAttribute};
use crossterm::terminal::{
    BeginSynchronizedUpdate, Clear, ClearType, EndSynchronizedUpdate, EnterAlternateScreen,
    LeaveAlternateScreen,
};
use crossterm::{cursor, execute, queue, terminal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::view::{Frame, Look};

/// Maximum wait for a key: a new sample is shown within this time.
const WAIT: Duration = Duration::from_millis(100);

/// A command of the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    /// End the program.
    Quit,
    /// Pause or resume.
    Pause,
    /// The next port.
    Next,
    /// The port before.
    Previous,
    /// Show or hide the help.
    Help,
    /// Hide the help.
    Close,
    /// List the top talkers by the next kind.
    By,
}

/// The terminal, in use.
pub(super) struct Screen {
    ended: Arc<AtomicBool>,
    shown: Option<Frame>,
}

impl Screen {
    pub(super) fn new() -> io::Result<Self> {
        let ended = Arc::new(AtomicBool::new(false));
        for signal in [SIGTERM, SIGINT, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&ended))?;
        }
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            restore();
            hook(info);
        }));
        terminal::enable_raw_mode()?;
        let screen = Self { ended, shown: None };
        execute!(io::stdout(), EnterAlternateScreen, cursor::Hide)?;
        Ok(screen)
    }

    /// Columns and lines.
    pub(super) fn size(&self) -> io::Result<(usize, usize)> {
        let (columns, lines) = terminal::size()?;
        Ok((columns.into(), lines.into()))
    }

    /// Draws a frame over the last one, if it differs.
    pub(super) fn draw(&mut self, frame: &Frame) -> io::Result<()> {
        if self.shown.as_ref() == Some(frame) {
            return Ok(());
        }
        let mut out = io::stdout().lock();
        queue!(out, BeginSynchronizedUpdate)?;
        for (line, (look, text)) in (0_u16..).zip(&frame.lines) {
            let attribute = match look {
                Look::Plain => Attribute::Reset,
                Look::Head => Attribute::Bold,
                Look::Selected => Attribute::Reverse,
            };
            let begin = cursor::MoveTo(0, line);
            queue!(out, begin, SetAttribute(attribute), Print(text))?;
            queue!(
                out,
                SetAttribute(Attribute::Reset),
                Clear(ClearType::UntilNewLine)
            )?;
        }
        queue!(out, Clear(ClearType::FromCursorDown), EndSynchronizedUpdate)?;
        out.flush()?;
        self.shown = Some(frame.clone());
        Ok(())
    }

    /// Waits up to [`WAIT`] for a key.
    pub(super) fn key(&mut self) -> io::Result<Option<Key>> {
        let has_event = match event::poll(WAIT) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => false,
            polled => polled?,
        };
        if self.ended.load(Ordering::Relaxed) {
            return Ok(Some(Key::Quit));
        }
        if !has_event {
            return Ok(None);
        }
        Ok(match event::read()? {
            Event::Key(pressed) if pressed.kind != KeyEventKind::Release => key(pressed),
            Event::Resize(..) => {
                self.shown = None; // the terminal may have moved the lines
                None
            }
            _ => None,
        })
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

/// Number of columns of the terminal on standard output; `None` if it is not a terminal.
pub(super) fn width() -> Option<usize> {
    let (columns, _) = terminal::size()
        .ok()
        .filter(|_| io::stdout().is_terminal())?;
    Some(columns.into())
}

/// Restores the terminal.
fn restore() {
    let _ = execute!(io::stdout(), LeaveAlternateScreen, cursor::Show); // the terminal may be closed
    let _ = terminal::disable_raw_mode();
}

fn key(pressed: KeyEvent) -> Option<Key> {
    let is_control = pressed.modifiers.contains(KeyModifiers::CONTROL);
    Some(match pressed.code {
        KeyCode::Char('c') if is_control => Key::Quit,
        KeyCode::Char('q') => Key::Quit,
        KeyCode::Esc => Key::Close,
        KeyCode::Char('b') => Key::By,
        KeyCode::Char('p' | ' ') => Key::Pause,
        KeyCode::Tab | KeyCode::Down | KeyCode::Right | KeyCode::Char('j') => Key::Next,
        KeyCode::BackTab | KeyCode::Up | KeyCode::Left | KeyCode::Char('k') => Key::Previous,
        KeyCode::Char('?' | 'h') => Key::Help,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    /// This variable is set in the process that panics.
    const PANICS: &str = "WEIR_TEST_PANICS";

    #[test]
    fn a_panic_gives_the_terminal_back_before_it_says_why() {
        if std::env::var_os(PANICS).is_some() {
            let _screen = Screen::new().unwrap();
            panic!("on purpose");
        }
        // `script` runs this test again on a separate terminal, and then checks the state of that terminal.
        let own = std::env::current_exe().unwrap();
        let name = "top::screen::tests::a_panic_gives_the_terminal_back_before_it_says_why";
        let command = format!("{} --exact {name} --nocapture; stty -a", own.display());
        let ran = Command::new("script")
            .args(["-qec", &command, "/dev/null"])
            .env(PANICS, "1")
            .stdin(Stdio::null())
            .output();
        let Ok(ran) = ran else {
            println!("skipped: there is no `script` here");
            return;
        };
        let shown = String::from_utf8_lossy(&ran.stdout);
        let at = |what: &str| {
            shown
                .find(what)
                .unwrap_or_else(|| panic!("{what}: {shown}"))
        };
        let (taken, given) = (at("\x1b[?1049h"), at("\x1b[?1049l"));
        assert!(taken < given && given < at("on purpose"), "{shown}");
        let modes = &shown[at("speed ")..];
        assert!(
            modes.contains(" icanon") && modes.contains(" echo "),
            "{modes}"
        );
        assert!(shown.contains("\x1b[?25h"), "the cursor is shown: {shown}");
    }
}
