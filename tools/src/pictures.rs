//! The pictures that are compressed: files given by the user, or landscapes drawn here.
//!
//! Invariant: width and height are multiples of four, as block compression wants them. A picture
//! that is not is extended by repeating its last column and row.

use std::path::Path;

/// Pixels in RGBA, eight bits each, row by row.
pub struct Picture {
    /// The file's name, or that of the drawing.
    pub name: String,
    /// In pixels, a multiple of four.
    pub width: u32,
    /// In pixels, a multiple of four.
    pub height: u32,
    /// `width * height * 4` bytes.
    pub rgba: Vec<u8>,
}

impl Picture {
    /// Its size in millions of pixels.
    pub fn megapixels(&self) -> f64 {
        f64::from(self.width) * f64::from(self.height) / 1e6
    }

    fn from_rgba(name: String, width: u32, height: u32, rgba: &[u8]) -> Self {
        let (w, h) = (width.next_multiple_of(4), height.next_multiple_of(4));
        let mut padded = Vec::with_capacity(w as usize * h as usize * 4);
        for y in 0..h {
            let row = y.min(height - 1) as usize * width as usize * 4;
            for x in 0..w {
                let at = row + x.min(width - 1) as usize * 4;
                padded.extend_from_slice(&rgba[at..at + 4]);
            }
        }
        Picture {
            name,
            width: w,
            height: h,
            rgba: padded,
        }
    }
}

/// Decodes a PNG or JPEG file. Fails with the path and the reason.
pub fn load(path: &Path) -> Result<Picture, String> {
    let image = image::ImageReader::open(path)
        .and_then(|reader| reader.with_guessed_format())
        .map_err(|error| format!("{}: {error}", path.display()))?
        .decode()
        .map_err(|error| format!("{}: {error}", path.display()))?
        .into_rgba8();
    let (width, height) = image.dimensions();
    if width == 0 || height == 0 {
        return Err(format!("{}: the picture is empty", path.display()));
    }
    let name = path.file_name().unwrap_or(path.as_os_str());
    Ok(Picture::from_rgba(
        name.to_string_lossy().into_owned(),
        width,
        height,
        &image,
    ))
}

/// Two landscapes of `width` by `height` pixels, the same on every machine.
pub fn draw(width: u32, height: u32) -> Vec<Picture> {
    std::thread::scope(|scope| {
        [("drawn: hills", 7u32), ("drawn: coast", 1913)]
            .map(|(name, seed)| scope.spawn(move || landscape(name, seed, width, height)))
            .into_iter()
            .filter_map(|thread| thread.join().ok())
            .collect()
    })
}

/// A hash of a lattice point, in 0..1.
fn lattice(x: i32, y: i32, seed: u32) -> f32 {
    let mut h = seed ^ (x as u32).wrapping_mul(0x9e37_79b1) ^ (y as u32).wrapping_mul(0x85eb_ca77);
    h = (h ^ (h >> 15)).wrapping_mul(0x2c1b_3c6d);
    h = (h ^ (h >> 12)).wrapping_mul(0x297a_2d39);
    (h ^ (h >> 15)) as f32 / u32::MAX as f32
}

/// Smooth noise in 0..1.
fn noise(x: f32, y: f32, seed: u32) -> f32 {
    let (xi, yi) = (x.floor(), y.floor());
    let fade = |t: f32| t * t * (3.0 - 2.0 * t);
    let (u, v) = (fade(x - xi), fade(y - yi));
    let at = |dx, dy| lattice(xi as i32 + dx, yi as i32 + dy, seed);
    let top = at(0, 0) + u * (at(1, 0) - at(0, 0));
    let bottom = at(0, 1) + u * (at(1, 1) - at(0, 1));
    top + v * (bottom - top)
}

/// Noise of several octaves, in 0..1.
fn fractal(x: f32, y: f32, octaves: u32, seed: u32) -> f32 {
    let (mut sum, mut weight, mut scale) = (0.0, 0.5, 1.0);
    for octave in 0..octaves {
        sum += weight * noise(x * scale, y * scale, seed.wrapping_add(octave));
        weight *= 0.5;
        scale *= 2.0;
    }
    sum
}

/// A sky with clouds over ranges of hills, with film grain: smooth areas, edges and fine detail.
fn landscape(name: &str, seed: u32, width: u32, height: u32) -> Picture {
    let mix = |a: [f32; 3], b: [f32; 3], t: f32| {
        let t = t.clamp(0.0, 1.0);
        [0, 1, 2].map(|i| a[i] + (b[i] - a[i]) * t)
    };
    const RANGES: usize = 4;
    // The crest of each range, per column.
    let crests: Vec<[f32; RANGES]> = (0..width)
        .map(|x| {
            let fx = x as f32 / height as f32;
            std::array::from_fn(|range| {
                let depth = range as f32 / RANGES as f32;
                let rough = fractal(fx * (2.0 + 3.0 * depth), range as f32 * 17.0, 6, seed);
                0.40 + 0.45 * depth + 0.22 * (rough - 0.5)
            })
        })
        .collect();
    let mut rgba = Vec::with_capacity(width as usize * height as usize * 4);
    for y in 0..height {
        let fy = y as f32 / height as f32;
        for x in 0..width {
            let fx = x as f32 / height as f32;
            let clouds = fractal(fx * 3.0, fy * 7.0, 5, seed ^ 0x51);
            let mut colour = mix([0.28, 0.47, 0.78], [0.87, 0.86, 0.80], fy * 2.0);
            colour = mix(colour, [0.96, 0.95, 0.94], (clouds - 0.5) * 4.0);
            let in_front = crests[x as usize].iter().rposition(|crest| fy > *crest);
            if let Some(range) = in_front {
                let near = (range + 1) as f32 / RANGES as f32;
                let grass = fractal(fx * 60.0 * near, fy * 90.0 * near, 4, seed ^ 0xa7);
                let ground = mix([0.16, 0.24, 0.10], [0.52, 0.50, 0.27], grass);
                colour = mix([0.58, 0.66, 0.74], ground, 0.25 + 0.75 * near);
            }
            let grain = (lattice(x as i32, y as i32, seed ^ 0x77) - 0.5) * 0.05;
            for channel in colour {
                rgba.push(((channel + grain).clamp(0.0, 1.0) * 255.0 + 0.5) as u8);
            }
            // A soft vignette in alpha, so that the formats with alpha have something to keep.
            let (dx, dy) = (x as f32 / width as f32 - 0.5, fy - 0.5);
            rgba.push(((1.0 - (dx * dx + dy * dy) * 1.2).clamp(0.0, 1.0) * 255.0 + 0.5) as u8);
        }
    }
    Picture::from_rgba(name.to_string(), width, height, &rgba)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_become_multiples_of_four_by_repeating_the_edge() {
        let rgba: Vec<u8> = (0..5 * 3 * 4).map(|i| i as u8).collect();
        let picture = Picture::from_rgba("p".into(), 5, 3, &rgba);
        assert_eq!((picture.width, picture.height), (8, 4));
        let pixel = |x: usize, y: usize| &picture.rgba[(y * 8 + x) * 4..][..4];
        assert_eq!(pixel(4, 2), &rgba[(2 * 5 + 4) * 4..][..4]);
        assert_eq!(pixel(7, 3), pixel(4, 2));
        assert_eq!(pixel(2, 3), pixel(2, 2));
    }

    #[test]
    fn drawings_are_the_same_each_time_and_differ_from_each_other() {
        let (a, b) = (draw(32, 16), draw(32, 16));
        assert_eq!(a[0].rgba, b[0].rgba);
        assert_ne!(a[0].rgba, a[1].rgba);
    }

    #[test]
    fn a_file_that_is_no_picture_is_an_error_with_its_name() {
        let error = load(Path::new(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/Cargo.toml"
        )))
        .err()
        .expect("a manifest is no picture");
        assert!(error.contains("Cargo.toml"), "{error}");
    }
}
