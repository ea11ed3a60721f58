//! Textures, views, samplers and query sets.

use crate::core;
use std::sync::Arc;
use wgpu::custom::*;

/// A texture of ours as `wgpu` sees it.
#[derive(Debug)]
pub(crate) struct Texture {
    pub core: Arc<core::resource::Texture>,
}

impl TextureInterface for Texture {
    fn create_view(&self, desc: &wgpu::TextureViewDescriptor<'_>) -> DispatchTextureView {
        DispatchTextureView::custom(TextureView {
            core: self.core.create_view(desc),
        })
    }

    fn destroy(&self) {
        self.core.destroy();
    }
}

/// A view of ours as `wgpu` sees it.
#[derive(Debug)]
pub(crate) struct TextureView {
    pub core: Arc<core::resource::TextureView>,
}

impl TextureViewInterface for TextureView {}

/// A sampler of ours as `wgpu` sees it.
#[derive(Debug)]
pub(crate) struct Sampler(pub Arc<core::resource::Sampler>);

impl SamplerInterface for Sampler {}

/// A query set of ours as `wgpu` sees it.
#[derive(Debug)]
pub(crate) struct QuerySet(pub Arc<core::resource::QuerySet>);

impl QuerySetInterface for QuerySet {
    fn destroy(&self) {
        self.0.destroy();
    }
}
