//! What a recording consists of.

use super::table::Table;
use crate::{
    resource::{BindGroup, Buffer, ComputePipeline, QuerySet, SubRange, Texture},
    validate::copy::{LinearPart, TexturePart},
};
use std::ops::Range;
use wgpu_types as wgt;

/// A list of commands and the tables that they refer to. Every rule that can be checked without the queue
/// was checked when a command was appended.
#[derive(Debug, Default)]
pub(crate) struct Recording {
    pub commands: Vec<Command>,
    /// Dynamic offsets and immediates.
    pub words: Vec<u32>,
    /// Labels of passes, groups and markers.
    pub text: String,
    pub buffers: Table<Buffer>,
    pub textures: Table<Texture>,
    pub bind_groups: Table<BindGroup>,
    pub pipelines: Table<ComputePipeline>,
    pub query_sets: Table<QuerySet>,
    /// For each indirect dispatch, how many words its arguments lie behind the offset that they can be bound
    /// at; each number once.
    pub indirect: Vec<u32>,
}

impl Recording {
    /// Keeps words for a command.
    pub fn keep_words(&mut self, words: &[u32]) -> Range<u32> {
        let start = self.words.len() as u32;
        self.words.extend_from_slice(words);
        start..self.words.len() as u32
    }

    /// Keeps text for a command.
    pub fn keep_text(&mut self, text: &str) -> Range<u32> {
        let start = self.text.len() as u32;
        self.text.push_str(text);
        start..self.text.len() as u32
    }

    /// The words of a command.
    pub fn words(&self, range: &Range<u32>) -> &[u32] {
        &self.words[range.start as usize..range.end as usize]
    }

    /// The text of a command.
    pub fn text(&self, range: &Range<u32>) -> &str {
        &self.text[range.start as usize..range.end as usize]
    }
}

/// A copy between a buffer and a texture.
#[derive(Debug)]
pub(crate) struct LinearCopy {
    pub buffer: u32,
    pub linear: LinearPart,
    pub texture: u32,
    pub part: TexturePart,
}

/// A copy between textures.
#[derive(Debug)]
pub(crate) struct TextureCopy {
    pub source: u32,
    pub from: TexturePart,
    pub destination: u32,
    pub to: TexturePart,
}

/// One command. Resources are places in the tables of the [`Recording`].
#[derive(Debug)]
pub(crate) enum Command {
    CopyBufferToBuffer {
        source: u32,
        source_offset: u64,
        destination: u32,
        destination_offset: u64,
        size: u64,
    },
    CopyBufferToTexture(Box<LinearCopy>),
    CopyTextureToBuffer(Box<LinearCopy>),
    CopyTextureToTexture(Box<TextureCopy>),
    ClearBuffer {
        buffer: u32,
        range: Range<u64>,
    },
    ClearTexture {
        texture: u32,
        range: Box<SubRange>,
    },
    TransitionBuffer {
        buffer: u32,
        to: wgt::BufferUses,
    },
    TransitionTexture {
        texture: u32,
        range: Box<SubRange>,
        to: wgt::TextureUses,
    },
    PushDebugGroup(Range<u32>),
    PopDebugGroup,
    InsertDebugMarker(Range<u32>),
    WriteTimestamp {
        set: u32,
        index: u32,
    },
    ResolveQuerySet {
        set: u32,
        queries: Range<u32>,
        buffer: u32,
        offset: u64,
    },
    BeginComputePass {
        label: Range<u32>,
        timestamps: Option<Box<Timestamps>>,
    },
    EndComputePass,
    SetComputePipeline(u32),
    SetBindGroup {
        index: u32,
        group: u32,
        offsets: Range<u32>,
    },
    SetImmediates {
        offset: u32,
        words: Range<u32>,
    },
    Dispatch([u32; 3]),
    DispatchIndirect {
        buffer: u32,
        offset: u64,
    },
    BeginPipelineStatistics {
        set: u32,
        index: u32,
    },
    EndPipelineStatistics {
        set: u32,
        index: u32,
    },
}

/// The queries that a pass writes its time to.
#[derive(Debug)]
pub(crate) struct Timestamps {
    pub set: u32,
    pub begin: Option<u32>,
    pub end: Option<u32>,
}
