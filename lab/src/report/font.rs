//! The font of all pictures.
//!
//! The drawing library needs a font to measure and, in bitmaps, to draw. It has one of its own here,
//! so that a picture is the same on a machine without any: DejaVu Sans, cut down (`font/LICENSE`).

use std::sync::Once;

use plotters::style::{FontStyle, register_font};

static DEJAVU: &[u8] = include_bytes!("font/DejaVuSans.ttf");

/// The family of pictures that stand on a page: drawn by the browser with the page's own font.
pub(super) const PAGE: &str = "system-ui, sans-serif";
/// The family of pictures that stand alone.
pub(super) const ALONE: &str = "DejaVu Sans, Verdana, sans-serif";

/// Makes both families known to the drawing library; to be called before anything is drawn.
pub(super) fn register() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for family in [PAGE, ALONE] {
            // The font is ours and can be read; if it could not, pictures would be left out.
            let _ = register_font(family, FontStyle::Normal, DEJAVU);
        }
    });
}
