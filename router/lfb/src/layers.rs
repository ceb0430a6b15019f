//! The network layers of the router next to IP, and how lists derive from them at compile time.

use weir_layer::Layer;

/// The layers. The router names a layer only here.
pub const LAYERS: &[&Layer] = &[&weir_fpf_lfb::LAYER];

/// An array with an element for each entry of this list of each layer.
macro_rules! of_each {
    ($list:ident, $fill:expr, |$layer:ident, $n:ident| $element:expr) => {{
        const LEN: usize = {
            let (mut len, mut layer) = (0, 0);
            while layer < LAYERS.len() {
                len += LAYERS[layer].$list.len();
                layer += 1;
            }
            len
        };
        let mut all = [$fill; LEN];
        let (mut len, mut $layer) = (0, 0);
        while $layer < LAYERS.len() {
            let mut $n = 0;
            while $n < LAYERS[$layer].$list.len() {
                all[len] = $element;
                (len, $n) = (len + 1, $n + 1);
            }
            $layer += 1;
        }
        all
    }};
}

pub(crate) use of_each;

/// The elements of these lists; the first list is not empty.
pub(crate) const fn joined<T: Copy, const N: usize>(lists: &[&[T]]) -> [T; N] {
    let mut all = [lists[0][0]; N];
    let (mut len, mut list) = (0, 0);
    while list < lists.len() {
        let mut n = 0;
        while n < lists[list].len() {
            all[len] = lists[list][n];
            (len, n) = (len + 1, n + 1);
        }
        list += 1;
    }
    assert!(len == N);
    all
}
