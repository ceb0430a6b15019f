//! The font of all pictures.
//!
//! The drawing library needs a font to measure and, in bitmaps, to draw. A built-in font makes pictures the same on a
//! machine without any fonts: DejaVu Sans, reduced (`font/LICENSE`).

use std::sync::Once;

use plotters::style::{FontStyle, register_font};

static DEJAVU: &[u8] = include_bytes!("font/DejaVuSans.ttf");

/// The family of pictures on a page: drawn by the browser with the page's own font.
pub(super) const PAGE: &str = "system-ui, sans-serif";
/// The family of separate pictures.
pub(super) const ALONE: &str = "DejaVu Sans, Verdana, sans-serif";

/// Registers both families with the drawing library; must be called before anything is drawn.
pub(super) fn register() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for family in [PAGE, ALONE] {
            // Our font is readable; if it were not, pictures would be left out.
            let _ = register_font(family, FontStyle::Normal, DEJAVU);
        }
    });
}
