//! Compute passes: dispatches, indirect dispatches, debug groups, transitions, and the order of
//! everything.

use wgpu::BufferUsages as B;

use crate::harness::*;

const COUNT: &str = "
    @group(0) @binding(0) var<storage, read_write> count: atomic<u32>;
    @compute @workgroup_size(4) fn main() { atomicAdd(&count, 1u); }";

/// A pipeline that counts its invocations, its bind group, and the counter.
fn counter(gpu: &Gpu) -> (wgpu::ComputePipeline, wgpu::BindGroup, wgpu::Buffer) {
    let pipeline = gpu.pipeline(COUNT);
    let buffer = gpu.buffer("counter", 4, B::STORAGE | B::all_copies());
    let group = gpu.group(&pipeline, &[buffer.as_entire_binding()]);
    (pipeline, group, buffer)
}

#[test]
fn dispatch_sizes() {
    test(|gpu| {
        let (pipeline, group, count) = counter(gpu);
        let run = |x, y, z| {
            gpu.commands(|encoder| {
                let mut pass = encoder.begin_compute_pass(&Default::default());
                pass.set_pipeline(&pipeline);
                pass.set_bind_group(0, &group, &[]);
                pass.dispatch_workgroups(x, y, z);
            })
        };
        let mut expected = 0;
        for (x, y, z) in [(1, 1, 1), (2, 3, 4), (0, 1, 1), (1, 0, 0), (100, 1, 1)] {
            gpu.valid((x, y, z), || gpu.queue.submit([run(x, y, z)]));
            expected += 4 * x * y * z;
            assert_eq!(gpu.read_words(&count), [expected], "{x} {y} {z}");
        }
        let most = gpu.device.limits().max_compute_workgroups_per_dimension;
        for (x, y, z) in [(most + 1, 1, 1), (1, most + 1, 1), (1, 1, u32::MAX)] {
            gpu.invalid((x, y, z), || run(x, y, z));
        }
        assert_eq!(gpu.read_words(&count), [expected]);
    });
}

#[test]
fn indirect() {
    test(|gpu| {
        let (pipeline, group, count) = counter(gpu);
        let most = gpu.device.limits().max_compute_workgroups_per_dimension;
        let arguments = gpu.filled(
            "arguments",
            B::INDIRECT,
            &bytes(&[
                9,
                2,
                3,
                4, // at 4: 2 x 3 x 4
                most + 1,
                1,
                1, // at 16
                1,
                most + 1,
                1, // at 28
                1,
                1,
                u32::MAX, // at 40
                0,
                5,
                5, // at 52
                1,
                1,
                1, // at 64
            ]),
        );
        let run = |offset| {
            gpu.commands(|encoder| {
                let mut pass = encoder.begin_compute_pass(&Default::default());
                pass.set_pipeline(&pipeline);
                pass.set_bind_group(0, &group, &[]);
                pass.dispatch_workgroups_indirect(&arguments, offset);
            })
        };
        for (offset, workgroups) in [(4, 24), (16, 0), (28, 0), (40, 0), (52, 0), (64, 1)] {
            gpu.run(|encoder| encoder.clear_buffer(&count, 0, None));
            gpu.valid(offset, || gpu.queue.submit([run(offset)]));
            assert_eq!(gpu.read_words(&count), [workgroups * 4], "at {offset}");
        }
        for offset in [2, 68, 72, 76, 1 << 20, u64::MAX - 3] {
            gpu.invalid(offset, || run(offset));
        }
        let no_usage = gpu.buffer("no usage", 16, B::STORAGE);
        gpu.invalid("lacks INDIRECT", || {
            gpu.commands(|encoder| {
                let mut pass = encoder.begin_compute_pass(&Default::default());
                pass.set_pipeline(&pipeline);
                pass.set_bind_group(0, &group, &[]);
                pass.dispatch_workgroups_indirect(&no_usage, 0);
            })
        });
    });
}

/// Arguments that an earlier dispatch wrote, in the same pass; state set before is still set.
#[test]
fn indirect_from_a_shader() {
    test(|gpu| {
        let (pipeline, group, count) = counter(gpu);
        let writer = gpu.pipeline(
            "@group(0) @binding(0) var<storage, read_write> arguments: array<u32>;
            @compute @workgroup_size(1) fn main() {
                for (var i = 0u; i < 3u; i++) { arguments[i] = i + 1u; }
            }",
        );
        let arguments = gpu.buffer("arguments", 16, B::STORAGE | B::INDIRECT);
        let writer_group = gpu.group(&writer, &[arguments.as_entire_binding()]);
        gpu.valid("written, then read", || {
            gpu.run(|encoder| {
                let mut pass = encoder.begin_compute_pass(&Default::default());
                pass.set_pipeline(&writer);
                pass.set_bind_group(0, &writer_group, &[]);
                pass.dispatch_workgroups(1, 1, 1);
                pass.set_pipeline(&pipeline);
                pass.set_bind_group(0, &group, &[]);
                pass.dispatch_workgroups_indirect(&arguments, 0);
                pass.dispatch_workgroups_indirect(&arguments, 0);
                pass.dispatch_workgroups(1, 1, 1);
            })
        });
        assert_eq!(gpu.read_words(&count), [4 * (6 + 6 + 1)]);
    });
}

/// A thousand dispatches over the same buffer: each sees the one before it.
#[test]
fn dispatches_are_ordered() {
    test(|gpu| {
        let pipeline = gpu.pipeline(
            "@group(0) @binding(0) var<storage, read_write> data: array<u32>;
            @compute @workgroup_size(1) fn main() { data[0] = data[0] * 3u + 1u; }",
        );
        let data = gpu.buffer("data", 16, B::STORAGE | B::all_copies());
        let group = gpu.group(&pipeline, &[data.as_entire_binding()]);
        let mut expected = 0u32;
        let commands: Vec<_> = (0..10)
            .map(|_| {
                gpu.commands(|encoder| {
                    for _ in 0..10 {
                        let mut pass = encoder.begin_compute_pass(&Default::default());
                        pass.set_pipeline(&pipeline);
                        pass.set_bind_group(0, &group, &[]);
                        for _ in 0..10 {
                            pass.dispatch_workgroups(1, 1, 1);
                            expected = expected.wrapping_mul(3).wrapping_add(1);
                        }
                    }
                })
            })
            .collect();
        gpu.queue.submit(commands);
        assert_eq!(gpu.read_words(&data)[0], expected);
    });
}

#[test]
fn state_errors() {
    test(|gpu| {
        let (pipeline, group, _) = counter(gpu);
        let pass = |record: &dyn Fn(&mut wgpu::ComputePass<'_>)| {
            gpu.commands(|encoder| record(&mut encoder.begin_compute_pass(&Default::default())))
        };
        gpu.valid("an empty pass", || pass(&|_| {}));
        gpu.invalid("no pipeline", || {
            pass(&|pass| pass.dispatch_workgroups(1, 1, 1))
        });
        gpu.invalid("no bind group", || {
            pass(&|pass| {
                pass.set_pipeline(&pipeline);
                pass.dispatch_workgroups(1, 1, 1);
            })
        });
        gpu.invalid("bind group taken away", || {
            pass(&|pass| {
                pass.set_pipeline(&pipeline);
                pass.set_bind_group(0, &group, &[]);
                pass.set_bind_group(0, None, &[]);
                pass.dispatch_workgroups(1, 1, 1);
            })
        });
        gpu.invalid("index too high", || {
            let most = gpu.device.limits().max_bind_groups;
            pass(&|pass| pass.set_bind_group(most, &group, &[]))
        });
        gpu.invalid("another layout", || {
            let other = gpu.pipeline(
                "@group(0) @binding(0) var<storage, read> data: array<u32>;
                @group(0) @binding(1) var<storage, read_write> output: array<u32>;
                @compute @workgroup_size(1) fn main() { output[0] = data[0]; }",
            );
            pass(&|pass| {
                pass.set_pipeline(&other);
                pass.set_bind_group(0, &group, &[]);
                pass.dispatch_workgroups(1, 1, 1);
            })
        });
        gpu.valid("set before the pipeline, and more than it needs", || {
            pass(&|pass| {
                pass.set_bind_group(0, &group, &[]);
                pass.set_bind_group(3, &group, &[]);
                pass.set_pipeline(&pipeline);
                pass.dispatch_workgroups(1, 1, 1);
            })
        });
    });
}

#[test]
fn debug_groups() {
    test(|gpu| {
        gpu.valid("balanced", || {
            gpu.run(|encoder| {
                encoder.push_debug_group("outer");
                encoder.insert_debug_marker("here");
                {
                    let mut pass = encoder.begin_compute_pass(&Default::default());
                    pass.push_debug_group("in a pass");
                    pass.insert_debug_marker("there");
                    pass.push_debug_group("");
                    pass.pop_debug_group();
                    pass.pop_debug_group();
                }
                encoder.push_debug_group("inner: \u{1F980}\0, and on");
                encoder.pop_debug_group();
                encoder.pop_debug_group();
            })
        });
        gpu.invalid("popped too often", || {
            gpu.commands(|encoder| encoder.pop_debug_group())
        });
        gpu.invalid("left open", || {
            gpu.commands(|encoder| encoder.push_debug_group("open"))
        });
        gpu.invalid("popped too often in a pass", || {
            gpu.commands(|encoder| {
                encoder.push_debug_group("outer");
                encoder
                    .begin_compute_pass(&Default::default())
                    .pop_debug_group();
                encoder.pop_debug_group();
            })
        });
        gpu.invalid("left open in a pass", || {
            gpu.commands(|encoder| {
                encoder
                    .begin_compute_pass(&Default::default())
                    .push_debug_group("open");
            })
        });
    });
}

#[test]
fn transition_resources() {
    test(|gpu| {
        let (pipeline, group, count) = counter(gpu);
        let texture = gpu.texture(
            "texture",
            (4, 4),
            wgpu::TextureFormat::R32Uint,
            wgpu::TextureUsages::all_copies() | wgpu::TextureUsages::TEXTURE_BINDING,
        );
        gpu.valid("ahead of use", || {
            gpu.run(|encoder| {
                encoder.transition_resources(
                    [wgpu::BufferTransition {
                        buffer: &count,
                        state: wgpu::BufferUses::STORAGE_READ_WRITE,
                    }]
                    .into_iter(),
                    [wgpu::TextureTransition {
                        texture: &texture,
                        selector: None,
                        state: wgpu::TextureUses::COPY_DST,
                    }]
                    .into_iter(),
                );
                let mut pass = encoder.begin_compute_pass(&Default::default());
                pass.set_pipeline(&pipeline);
                pass.set_bind_group(0, &group, &[]);
                pass.dispatch_workgroups(1, 1, 1);
            })
        });
        assert_eq!(gpu.read_words(&count), [4]);
        let texels = gpu.read_texels(texture.as_image_copy(), extent(4, 4, 1), 4);
        assert!(texels.iter().all(|byte| *byte == 0));
    });
}

/// A pass whose encoder is finished first, as `forget_lifetime` allows.
#[test]
fn finished_while_a_pass_is_open() {
    test(|gpu| {
        let (pipeline, group, _) = counter(gpu);
        let mut encoder = gpu.encoder();
        let mut pass = encoder
            .begin_compute_pass(&Default::default())
            .forget_lifetime();
        let (commands, error) = gpu.error_of(|| encoder.finish());
        assert!(error.is_some(), "the encoder is locked");
        gpu.error_of(|| {
            pass.set_pipeline(&pipeline);
            pass.set_bind_group(0, &group, &[]);
            pass.dispatch_workgroups(1, 1, 1);
            drop(pass);
        });
        gpu.invalid("it cannot be submitted", || gpu.queue.submit([commands]));
        // Recording into a locked encoder.
        let mut encoder = gpu.encoder();
        let pass = encoder
            .begin_compute_pass(&Default::default())
            .forget_lifetime();
        let (_, error) = gpu.error_of(|| {
            encoder.push_debug_group("while locked");
            drop(pass);
            encoder.finish()
        });
        assert!(error.is_some());
        // An encoder dropped under its pass.
        let mut encoder = gpu.encoder();
        let pass = encoder
            .begin_compute_pass(&Default::default())
            .forget_lifetime();
        drop(encoder);
        gpu.error_of(|| drop(pass));
    });
}

/// Resources of another device.
#[test]
fn two_devices() {
    test(|gpu| {
        let (other, other_queue) =
            pollster::block_on(gpu.adapter.request_device(&Default::default())).unwrap();
        let foreign = other.create_buffer(&wgpu::BufferDescriptor {
            label: Some("foreign"),
            size: 256,
            usage: B::all_copies() | B::STORAGE,
            mapped_at_creation: false,
        });
        let own = gpu.buffer("own", 256, B::all_copies());
        gpu.invalid("recorded", || {
            let commands =
                gpu.commands(|encoder| encoder.copy_buffer_to_buffer(&foreign, 0, &own, 0, 256));
            gpu.queue.submit([commands])
        });
        gpu.invalid("bound", || {
            gpu.group(&gpu.pipeline(COUNT), &[foreign.as_entire_binding()])
        });
        gpu.invalid("written", || gpu.queue.write_buffer(&foreign, 0, &[1; 4]));
        let scope = other.push_error_scope(wgpu::ErrorFilter::Validation);
        let commands = gpu.commands(|_| {});
        let (_, error) = gpu.error_of(|| other_queue.submit([commands]));
        let there = pollster::block_on(scope.pop());
        assert!(error.is_some() || there.is_some(), "submitted elsewhere");
        // Two devices work side by side.
        other_queue.write_buffer(&foreign, 0, &[1; 256]);
        other_queue.submit([]);
        gpu.queue.write_buffer(&own, 0, &[2; 256]);
        assert_eq!(gpu.read(&own), [2; 256]);
        other.poll(wgpu::PollType::wait_indefinitely()).unwrap();
    });
}
