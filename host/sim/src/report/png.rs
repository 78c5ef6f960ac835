//! Pictures as PNG, for slides and papers. The font is part of the program, so that the same data gives the same bytes
//! on every machine.
//!
//! This module does not know the subject of a picture.

use std::sync::Arc;

use epaint_default_fonts::UBUNTU_LIGHT;
use resvg::{tiny_skia, usvg};

/// Pixels for each unit of the picture.
const SCALE: f32 = 2.0;

/// Draws pictures.
pub(super) struct Painter {
    fonts: Arc<usvg::fontdb::Database>,
}

impl Painter {
    pub(super) fn new() -> Self {
        let mut fonts = usvg::fontdb::Database::new();
        fonts.load_font_data(UBUNTU_LIGHT.to_vec());
        let name = fonts.faces().next().and_then(|face| Some(face.families.first()?.0.clone()));
        fonts.set_sans_serif_family(name.unwrap_or_default());
        Painter { fonts: Arc::new(fonts) }
    }

    /// Draws a picture of this crate; `None` for another SVG.
    pub(super) fn png(&self, svg: &str) -> Option<Vec<u8>> {
        let options = usvg::Options { fontdb: Arc::clone(&self.fonts), ..usvg::Options::default() };
        let tree = usvg::Tree::from_str(svg, &options).ok()?;
        let size = tree.size().to_int_size().scale_by(SCALE)?;
        let mut pixels = tiny_skia::Pixmap::new(size.width(), size.height())?;
        pixels.fill(tiny_skia::Color::WHITE);
        resvg::render(&tree, tiny_skia::Transform::from_scale(SCALE, SCALE), &mut pixels.as_mut());
        pixels.encode_png().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_drawn_and_written_is_there() {
        let picture = |inside: &str| {
            format!(
                "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 40 20\" font-family=\"system-ui, sans-serif\" \
                 font-size=\"12\">{inside}</svg>"
            )
        };
        let dark = |inside: &str| {
            let png = Painter::new().png(&picture(inside)).unwrap();
            let pixels = tiny_skia::Pixmap::decode_png(&png).unwrap();
            assert_eq!((pixels.width(), pixels.height()), (80, 40));
            pixels.pixels().iter().filter(|p| p.red() < 128).count()
        };
        assert_eq!(dark(""), 0);
        assert_eq!(dark("<rect x=\"0\" y=\"0\" width=\"10\" height=\"5\" fill=\"#000\"/>"), 200);
        assert!(dark("<text x=\"1\" y=\"15\">waits</text>") > 50);
        assert!(Painter::new().png("no picture").is_none());
    }
}
