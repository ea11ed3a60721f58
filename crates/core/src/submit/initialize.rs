//! Zeros for what nobody has written (I7).
//!
//! What a command is going to read, or write in part, is cleared first if nothing has written it before;
//! what it overwrites as a whole is only noted as written.

use super::replay::Replay;
use crate::{
    device::ZEROS_SIZE,
    error::Result,
    reclaim::BufferRaw,
    resource::{Buffer, SubRange, Texture},
};
use fencepost_lifetime::mutation::planted;
use std::ops::Range;
use wgpu_hal as hal;
use wgpu_types as wgt;

impl<'a> Replay<'a, '_> {
    /// Clears what nobody has written of a range of a buffer. Not within a pass.
    #[inline]
    pub fn define_buffer(&mut self, buffer: &'a Buffer, range: &Range<u64>) {
        if !buffer.init.is_whole() && !planted("recycled memory that is not cleared") {
            self.clear_holes(buffer, range);
        }
    }

    fn clear_holes(&mut self, buffer: &'a Buffer, range: &Range<u64>) {
        // Clears come in units; the memory is rounded up to them.
        let unit = wgt::COPY_BUFFER_ALIGNMENT;
        let range = range.start / unit * unit..range.end.next_multiple_of(unit);
        for hole in self.journal.fill_buffer(buffer, &range) {
            self.use_buffer(buffer, wgt::BufferUses::COPY_DST);
            self.barriers();
            let raw = Self::raw_buffer(buffer);
            // SAFETY: holes lie within the memory, at multiples of the unit.
            unsafe { self.encoder().clear_buffer(raw, hole) };
        }
    }

    /// Uses a range of a buffer for a write that leaves nothing of it as it was.
    pub fn overwrite_buffer(
        &mut self,
        buffer: &'a Buffer,
        range: &Range<u64>,
        uses: wgt::BufferUses,
    ) {
        self.journal.fill_buffer(buffer, range);
        self.use_buffer(buffer, uses);
    }

    /// Clears what nobody has written of a part of a texture. Not within a pass.
    pub fn define_texture(&mut self, texture: &'a Texture, range: &SubRange) -> Result<()> {
        for hole in self.journal.fill_texture(texture, range) {
            self.zero_texture(texture, &hole)?;
        }
        Ok(())
    }

    /// Fills a part of a texture with zeros.
    pub fn zero_texture(&mut self, texture: &'a Texture, range: &SubRange) -> Result<()> {
        let uses = texture.clear_usage;
        if uses == wgt::TextureUses::COPY_DST {
            self.copy_zeros(texture, range);
            Ok(())
        } else {
            self.render_zeros(texture, range, uses)
        }
    }

    /// The buffer of zeros, ready to be copied from.
    fn zeros(&mut self) -> &'a dyn hal::DynBuffer {
        let zeros = &*Self::raw::<BufferRaw>(Some(&self.device.zeros)).hal;
        if !std::mem::replace(&mut self.zeros_ready, true) {
            let barrier = hal::BufferBarrier {
                buffer: zeros,
                usage: hal::StateTransition {
                    from: wgt::BufferUses::COPY_DST,
                    to: wgt::BufferUses::COPY_SRC,
                },
            };
            // SAFETY: the buffer was stamped by this submission, and no pass is open.
            unsafe {
                self.encoder().clear_buffer(zeros, 0..ZEROS_SIZE);
                self.encoder().transition_buffers(&[barrier]);
            }
        }
        zeros
    }

    fn copy_zeros(&mut self, texture: &'a Texture, range: &SubRange) {
        self.use_texture(texture, range, wgt::TextureUses::COPY_DST);
        self.barriers();
        let zeros = self.zeros();
        let desc = &texture.desc;
        let (block_width, block_height) = desc.format.block_dimensions();
        let pitch = self
            .device
            .adapter
            .capabilities
            .alignments
            .buffer_copy_pitch
            .get();
        let mut regions = Vec::new();
        for aspect in hal::FormatAspects::from(desc.format).iter() {
            let block_bytes = desc.format.block_copy_size(Some(aspect.map()));
            let block_bytes = u64::from(block_bytes.expect("a format that is cleared by copies"));
            for mip in range.mips.clone() {
                let size = desc.mip_level_size(mip).expect("the level exists");
                let size = size.physical_size(desc.format);
                let depth = match desc.dimension {
                    wgt::TextureDimension::D3 => size.depth_or_array_layers,
                    wgt::TextureDimension::D1 | wgt::TextureDimension::D2 => 1,
                };
                let row = u64::from(size.width / block_width) * block_bytes;
                let row = row.next_multiple_of(pitch.max(block_bytes));
                let most_rows = (ZEROS_SIZE / row).max(1) as u32 * block_height;
                for layer in range.layers.clone() {
                    for z in 0..depth {
                        let mut y = 0;
                        while y < size.height {
                            let rows = most_rows.min(size.height - y);
                            regions.push(hal::BufferTextureCopy {
                                buffer_layout: wgt::TexelCopyBufferLayout {
                                    offset: 0,
                                    bytes_per_row: Some(row as u32),
                                    rows_per_image: None,
                                },
                                texture_base: hal::TextureCopyBase {
                                    mip_level: mip,
                                    array_layer: layer,
                                    origin: wgt::Origin3d { x: 0, y, z },
                                    aspect,
                                },
                                size: hal::CopyExtent {
                                    width: size.width,
                                    height: rows,
                                    depth: 1,
                                },
                            });
                            y += rows;
                        }
                    }
                }
            }
        }
        let raw = Self::raw_texture(texture);
        // SAFETY: each region lies within a subresource, and its rows within the zeros.
        unsafe {
            self.encoder().copy_buffer_to_texture(zeros, raw, &regions);
        }
    }

    /// Clears by empty render passes: for formats and sample counts that no copy can write.
    fn render_zeros(
        &mut self,
        texture: &'a Texture,
        range: &SubRange,
        uses: wgt::TextureUses,
    ) -> Result<()> {
        self.use_texture(texture, range, uses);
        self.barriers();
        let raw = Self::raw_texture(texture);
        let desc = &texture.desc;
        for mip in range.mips.clone() {
            let size = desc.mip_level_size(mip).expect("the level exists");
            for layer in range.layers.clone() {
                let view_desc = hal::TextureViewDescriptor {
                    label: None,
                    format: desc.format,
                    dimension: wgt::TextureViewDimension::D2,
                    usage: uses,
                    range: SubRange::one(mip, layer).image_range(),
                };
                let device = self.device;
                let view = self.make(&"a view to clear a texture", 0, |hal| {
                    // SAFETY: the texture is alive, and the subresource exists.
                    unsafe { hal.create_texture_view(raw, &view_desc) }
                })?;
                // A Vulkan pool keeps temporary views through a reset.
                self.encoding.spend();
                // SAFETY: this submission keeps the view.
                let view = unsafe { view.get() };
                let target = || hal::Attachment {
                    view: &**view,
                    usage: uses,
                };
                let ops = hal::AttachmentOps::STORE | hal::AttachmentOps::LOAD_CLEAR;
                let color = uses == wgt::TextureUses::COLOR_TARGET;
                let color_attachment = Some(hal::ColorAttachment {
                    target: target(),
                    depth_slice: None,
                    resolve_target: None,
                    ops,
                    clear_value: wgt::Color::TRANSPARENT,
                });
                let pass = hal::RenderPassDescriptor {
                    label: None,
                    extent: wgt::Extent3d {
                        depth_or_array_layers: 1,
                        ..size
                    },
                    sample_count: desc.sample_count,
                    color_attachments: if color {
                        std::slice::from_ref(&color_attachment)
                    } else {
                        &[]
                    },
                    depth_stencil_attachment: (!color).then_some(hal::DepthStencilAttachment {
                        target: target(),
                        depth_ops: ops,
                        stencil_ops: ops,
                        clear_value: (0.0, 0),
                    }),
                    multiview_mask: None,
                    timestamp_writes: None,
                    occlusion_query_set: None,
                };
                // SAFETY: the view is alive, and no pass is open.
                unsafe {
                    let begun = self.encoder().begin_render_pass(&pass);
                    begun.map_err(|error| device.lower.error(error))?;
                    self.encoder().end_render_pass();
                }
            }
        }
        Ok(())
    }
}
