//! Render work is not there yet: it ends in a validation error that says so, never in a panic.

use crate::harness::*;

fn view(gpu: &Gpu) -> wgpu::TextureView {
    gpu.view(&gpu.texture(
        "target",
        (16, 16),
        wgpu::TextureFormat::Rgba8Unorm,
        wgpu::TextureUsages::RENDER_ATTACHMENT,
    ))
}

const SHADER: &str = "
    @vertex fn vertex(@builtin(vertex_index) index: u32) -> @builtin(position) vec4<f32> {
        return vec4(f32(index), 0.0, 0.0, 1.0);
    }
    @fragment fn fragment() -> @location(0) vec4<f32> { return vec4(1.0); }";

fn pipeline(gpu: &Gpu) -> wgpu::RenderPipeline {
    let module = gpu.module(SHADER);
    gpu.device
        .create_render_pipeline(&wgpu::RenderPipelineDescriptor {
            label: Some("render pipeline"),
            layout: None,
            vertex: wgpu::VertexState {
                module: &module,
                entry_point: None,
                compilation_options: Default::default(),
                buffers: &[],
            },
            primitive: Default::default(),
            depth_stencil: None,
            multisample: Default::default(),
            fragment: Some(wgpu::FragmentState {
                module: &module,
                entry_point: None,
                compilation_options: Default::default(),
                targets: &[Some(wgpu::TextureFormat::Rgba8Unorm.into())],
            }),
            multiview_mask: None,
            cache: None,
        })
}

#[test]
fn render_work_is_an_error() {
    if ours_alone("wgpu-core renders") {
        return;
    }
    test(|gpu| {
        let error = gpu.invalid("a render pipeline", || pipeline(gpu));
        assert!(error.contains("render"), "{error}");
        let (pipeline, _) = gpu.error_of(|| pipeline(gpu));
        gpu.error_of(|| pipeline.get_bind_group_layout(0));
        let target = view(gpu);
        let record = |encoder: &mut wgpu::CommandEncoder| {
            let mut pass = encoder.begin_render_pass(&wgpu::RenderPassDescriptor {
                label: Some("a pass"),
                color_attachments: &[Some(wgpu::RenderPassColorAttachment {
                    view: &target,
                    depth_slice: None,
                    resolve_target: None,
                    ops: wgpu::Operations {
                        load: wgpu::LoadOp::Clear(wgpu::Color::WHITE),
                        store: wgpu::StoreOp::Store,
                    },
                })],
                ..Default::default()
            });
            pass.set_pipeline(&pipeline);
            pass.set_viewport(0.0, 0.0, 16.0, 16.0, 0.0, 1.0);
            pass.push_debug_group("group");
            pass.pop_debug_group();
            pass.draw(0..3, 0..1);
        };
        let (commands, error) = gpu.error_of(|| gpu.commands(record));
        let submitted = gpu.error_of(|| gpu.queue.submit([commands])).1;
        assert!(
            error
                .or(submitted)
                .is_some_and(|error| error.contains("render")),
            "a render pass"
        );
        let (bundle, error) = gpu.error_of(|| {
            let mut encoder =
                gpu.device
                    .create_render_bundle_encoder(&wgpu::RenderBundleEncoderDescriptor {
                        label: Some("a bundle"),
                        color_formats: &[Some(wgpu::TextureFormat::Rgba8Unorm)],
                        depth_stencil: None,
                        sample_count: 1,
                        multiview: None,
                    });
            encoder.set_pipeline(&pipeline);
            encoder.draw(0..3, 0..1);
            encoder.finish(&Default::default())
        });
        assert!(error.is_some(), "a bundle");
        drop(bundle);
        // And the device goes on.
        let buffer = gpu.filled("after", wgpu::BufferUsages::all_copies(), &[1; 16]);
        assert_eq!(gpu.read(&buffer), [1; 16]);
    });
}
