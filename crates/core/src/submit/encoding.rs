//! A HAL encoder that is recording, and what happens to it when that fails.

use crate::{
    error::Result,
    reclaim::{lower::InFlight, Lower},
};
use fencepost_lifetime::Serial;
use wgpu_hal as hal;

/// An encoder in the recording state. Dropping it discards what was recorded.
#[derive(Debug)]
pub(super) struct Encoding<'a> {
    lower: &'a Lower,
    encoder: Option<Box<dyn hal::DynCommandEncoder>>,
    /// Whether the encoder is not to be used again.
    spent: bool,
}

impl<'a> Encoding<'a> {
    pub fn begin(lower: &'a Lower, label: hal::Label<'_>) -> Result<Self> {
        let encoder = lower.under_pressure(&"a command encoder", || {
            let mut encoder = lower.encoder()?;
            // SAFETY: a pooled or new encoder is closed. Should this fail, it stays so and is dropped: it
            // has no command buffers.
            unsafe { encoder.begin_encoding(label) }?;
            Ok(encoder)
        })?;
        Ok(Self {
            lower,
            encoder: Some(encoder),
            spent: false,
        })
    }

    /// The encoder, which is recording.
    pub fn get(&mut self) -> &mut dyn hal::DynCommandEncoder {
        &mut **self.encoder.as_mut().expect("only `end` takes it")
    }

    /// Notes that the encoder is not to be used again: its pool would keep what it holds through a reset.
    pub fn spend(&mut self) {
        self.spent = true;
    }

    /// Ends the recording. An encoder that fails to do so is dropped, not discarded or used again.
    pub fn end(mut self, serial: Serial) -> Result<InFlight, hal::DeviceError> {
        let mut encoder = self.encoder.take().expect("only `end` takes it");
        // SAFETY: the encoder is recording.
        let commands = unsafe { encoder.end_encoding() }?;
        Ok(InFlight {
            serial,
            encoder,
            commands: vec![commands],
            spent: self.spent,
        })
    }
}

impl Drop for Encoding<'_> {
    fn drop(&mut self) {
        if let Some(mut encoder) = self.encoder.take() {
            // SAFETY: the encoder is recording; afterwards it is closed and has no command buffers.
            unsafe {
                encoder.discard_encoding();
                encoder.reset_all(Vec::new());
            }
            if !self.spent {
                self.lower.recycle(encoder);
            }
        }
    }
}
