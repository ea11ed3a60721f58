//! Copies and clears, with what was recorded and with what the queue wrote.

use super::{pending_writes::Held, replay::Replay};
use crate::{
    error::Result,
    reclaim::BufferRaw,
    record::{LinearCopy, Recording, TextureCopy},
    resource::{Buffer, Texture},
    validate::copy::{LinearPart, TexturePart},
};
use std::ops::Range;
use wgpu_hal as hal;
use wgpu_types as wgt;

impl<'a> Replay<'a, '_> {
    pub fn copy_buffer(
        &mut self,
        source: &'a Buffer,
        source_offset: u64,
        destination: &'a Buffer,
        destination_offset: u64,
        size: u64,
    ) {
        let Some(hal_size) = wgt::BufferSize::new(size) else {
            return;
        };
        self.define_buffer(source, &(source_offset..source_offset + size));
        self.use_buffer(source, wgt::BufferUses::COPY_SRC);
        let range = destination_offset..destination_offset + size;
        self.overwrite_buffer(destination, &range, wgt::BufferUses::COPY_DST);
        self.barriers();
        let region = hal::BufferCopy {
            src_offset: source_offset,
            dst_offset: destination_offset,
            size: hal_size,
        };
        let (source, destination) = (Self::raw_buffer(source), Self::raw_buffer(destination));
        // SAFETY: the ranges were checked when the copy was recorded.
        unsafe {
            self.encoder()
                .copy_buffer_to_buffer(source, destination, &[region]);
        }
    }

    pub fn clear_buffer(&mut self, buffer: &'a Buffer, range: &Range<u64>) {
        if range.is_empty() {
            return;
        }
        self.overwrite_buffer(buffer, range, wgt::BufferUses::COPY_DST);
        self.barriers();
        let raw = Self::raw_buffer(buffer);
        // SAFETY: the range was checked when the clear was recorded.
        unsafe { self.encoder().clear_buffer(raw, range.clone()) };
    }

    pub fn copy_to_texture(
        &mut self,
        recording: &'a Recording,
        copy: &'a LinearCopy,
    ) -> Result<()> {
        if copy.part.is_empty() {
            return Ok(());
        }
        let buffer = recording.buffers.get(copy.buffer);
        let start = copy.linear.layout.offset;
        self.define_buffer(buffer, &(start..start + copy.linear.bytes));
        self.use_buffer(buffer, wgt::BufferUses::COPY_SRC);
        let raw = Self::raw_buffer(buffer);
        let texture = recording.textures.get(copy.texture);
        self.fill_texture(raw, &copy.linear, texture, &copy.part)
    }

    pub fn copy_from_texture(
        &mut self,
        recording: &'a Recording,
        copy: &'a LinearCopy,
    ) -> Result<()> {
        if copy.part.is_empty() {
            return Ok(());
        }
        let texture = recording.textures.get(copy.texture);
        self.define_texture(texture, &copy.part.range)?;
        let buffer = recording.buffers.get(copy.buffer);
        let start = copy.linear.layout.offset;
        let range = start..start + copy.linear.bytes;
        // Rows may leave gaps, and the last bytes may be less than a clear can express.
        if copy.linear.tight && range.end.is_multiple_of(wgt::COPY_BUFFER_ALIGNMENT) {
            self.overwrite_buffer(buffer, &range, wgt::BufferUses::COPY_DST);
        } else {
            self.define_buffer(buffer, &range);
            self.use_buffer(buffer, wgt::BufferUses::COPY_DST);
        }
        self.use_texture(texture, &copy.part.range, wgt::TextureUses::COPY_SRC);
        self.barriers();
        let regions: Vec<_> = copy.part.linear_regions(&copy.linear).collect();
        let (buffer, texture) = (Self::raw_buffer(buffer), Self::raw_texture(texture));
        // SAFETY: the copy was checked when it was recorded.
        unsafe {
            self.encoder().copy_texture_to_buffer(
                texture,
                wgt::TextureUses::COPY_SRC,
                buffer,
                &regions,
            );
        }
        Ok(())
    }

    pub fn copy_texture(&mut self, recording: &'a Recording, copy: &'a TextureCopy) -> Result<()> {
        if copy.from.is_empty() {
            return Ok(());
        }
        let source = recording.textures.get(copy.source);
        let destination = recording.textures.get(copy.destination);
        self.define_texture(source, &copy.from.range)?;
        self.begin_write(destination, &copy.to)?;
        self.use_texture(source, &copy.from.range, wgt::TextureUses::COPY_SRC);
        self.use_texture(destination, &copy.to.range, wgt::TextureUses::COPY_DST);
        self.barriers();
        let regions: Vec<_> = copy.from.texture_regions(&copy.to).collect();
        let (source, destination) = (Self::raw_texture(source), Self::raw_texture(destination));
        // SAFETY: the copy was checked when it was recorded.
        unsafe {
            self.encoder().copy_texture_to_texture(
                source,
                wgt::TextureUses::COPY_SRC,
                destination,
                &regions,
            );
        }
        Ok(())
    }

    /// Carries out a write of the queue's.
    pub fn write(&mut self, write: &'a Held) -> Result<()> {
        let source = &*Self::raw::<BufferRaw>(Some(write.source())).hal;
        match write {
            Held::Buffer {
                target,
                offset,
                size,
                ..
            } => {
                let Some(hal_size) = wgt::BufferSize::new(*size) else {
                    return Ok(());
                };
                let range = *offset..*offset + *size;
                self.overwrite_buffer(target, &range, wgt::BufferUses::COPY_DST);
                self.barriers();
                let region = hal::BufferCopy {
                    src_offset: 0,
                    dst_offset: *offset,
                    size: hal_size,
                };
                let target = Self::raw_buffer(target);
                // SAFETY: the range was checked when the write was queued.
                unsafe {
                    self.encoder()
                        .copy_buffer_to_buffer(source, target, &[region]);
                }
                Ok(())
            }
            Held::Texture {
                target,
                linear,
                part,
                ..
            } => self.fill_texture(source, linear, target, part),
        }
    }

    fn fill_texture(
        &mut self,
        source: &dyn hal::DynBuffer,
        linear: &LinearPart,
        texture: &'a Texture,
        part: &TexturePart,
    ) -> Result<()> {
        self.begin_write(texture, part)?;
        self.use_texture(texture, &part.range, wgt::TextureUses::COPY_DST);
        self.barriers();
        let regions: Vec<_> = part.linear_regions(linear).collect();
        let texture = Self::raw_texture(texture);
        // SAFETY: the copy was checked when it was recorded or queued.
        unsafe {
            self.encoder()
                .copy_buffer_to_texture(source, texture, &regions);
        }
        Ok(())
    }

    /// Before a write to a part of a texture: what it does not overwrite must be defined.
    fn begin_write(&mut self, texture: &'a Texture, part: &TexturePart) -> Result<()> {
        if part.whole {
            self.journal.fill_texture(texture, &part.range);
            Ok(())
        } else {
            self.define_texture(texture, &part.range)
        }
    }
}
