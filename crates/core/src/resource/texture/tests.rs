//! Textures and views as objects, on the back end that does nothing: what is reported, and what is freed
//! when.

use super::*;
use crate::{
    error::ErrorKind,
    instance::tests::noop_device,
    resource::{TextureView, TextureViewDescriptor},
};

fn descriptor(label: &str) -> TextureDescriptor<'_> {
    TextureDescriptor {
        label: Some(label),
        size: wgt::Extent3d {
            width: 16,
            height: 16,
            depth_or_array_layers: 2,
        },
        mip_level_count: 1,
        sample_count: 1,
        dimension: wgt::TextureDimension::D2,
        format: wgt::TextureFormat::Rgba8Unorm,
        usage: wgt::TextureUsages::TEXTURE_BINDING | wgt::TextureUsages::COPY_DST,
        view_formats: &[],
    }
}

/// The bytes of a texture of that description.
const BYTES: u64 = 16 * 16 * 2 * 4;

fn device() -> Arc<Device> {
    noop_device(wgt::Features::empty())
}

/// What `make` makes, and the validation error that it reports, if any.
fn catch<T>(device: &Device, make: impl FnOnce() -> T) -> (T, Option<String>) {
    let scope = device.push_error_scope(ErrorKind::Validation);
    let made = make();
    let error = device.pop_error_scope(scope);
    (made, error.map(|error| error.to_string()))
}

/// How many objects and bytes there are beyond those of `base`.
fn beyond(device: &Device, base: &crate::report::MemoryReport) -> (u64, u64) {
    let now = device.memory_report();
    (now.objects - base.objects, now.bytes - base.bytes)
}

#[test]
fn a_texture_takes_memory_until_its_last_handle_goes() {
    let device = device();
    let base = device.memory_report();
    let texture = device.create_texture(&descriptor("atlas"));
    assert_eq!(beyond(&device, &base), (1, BYTES));
    let other = Arc::clone(&texture);
    drop(texture);
    assert_eq!(beyond(&device, &base), (1, BYTES));
    drop(other);
    assert_eq!(beyond(&device, &base), (0, 0));
}

#[test]
fn destroying_leaves_a_tombstone() {
    let device = device();
    let base = device.memory_report();
    let texture = device.create_texture(&descriptor("atlas"));
    texture.destroy();
    assert_eq!(beyond(&device, &base), (0, 0));
    texture.destroy();
    assert_eq!(texture.label(), "atlas");
    assert_eq!(texture.size(), descriptor("").size);
    assert_eq!(texture.usage(), descriptor("").usage);
    assert_eq!(texture.format(), descriptor("").format);
    assert!(texture.check_valid().is_ok());
}

#[test]
fn an_error_names_the_texture_the_rule_and_the_values() {
    let device = device();
    let base = device.memory_report();
    let desc = TextureDescriptor {
        mip_level_count: 6,
        ..descriptor("atlas")
    };
    let (texture, error) = catch(&device, || device.create_texture(&desc));
    let error = error.unwrap();
    for part in [
        "Device::create_texture",
        "Texture \"atlas\"",
        "mip_level_count 6",
        "1 to 5",
    ] {
        assert!(error.contains(part), "{error}");
    }
    assert_eq!(
        texture.check_valid().unwrap_err().to_string(),
        "Texture \"atlas\" is invalid"
    );
    assert_eq!(beyond(&device, &base), (0, 0));
    texture.destroy();

    let (view, error) = catch(&device, || texture.create_view(&Default::default()));
    let error = error.unwrap();
    assert!(error.contains("Texture \"atlas\" is invalid"), "{error}");
    assert!(view.check_valid().is_err());
}

#[test]
fn any_description_at_all_is_an_error_at_worst() {
    let device = device();
    let extremes = [0, 1, u32::MAX];
    for width in extremes {
        for depth_or_array_layers in extremes {
            for count in extremes {
                for dimension in [
                    wgt::TextureDimension::D1,
                    wgt::TextureDimension::D2,
                    wgt::TextureDimension::D3,
                ] {
                    let desc = TextureDescriptor {
                        size: wgt::Extent3d {
                            width,
                            height: width,
                            depth_or_array_layers,
                        },
                        mip_level_count: count,
                        sample_count: count,
                        dimension,
                        ..descriptor("extreme")
                    };
                    let (texture, error) = catch(&device, || device.create_texture(&desc));
                    let valid = [width, depth_or_array_layers, count] == [1, 1, 1];
                    assert_eq!(error.is_none(), valid, "{desc:?}: {error:?}");
                    let (view, error) = catch(&device, || texture.create_view(&Default::default()));
                    assert_eq!(error.is_none(), valid);
                    drop((view, texture));
                }
            }
        }
    }
}

#[test]
fn features_of_formats_are_asked_for() {
    let desc = TextureDescriptor {
        format: wgt::TextureFormat::Bc1RgbaUnorm,
        ..descriptor("blocks")
    };
    let without = device();
    let (_, error) = catch(&without, || without.create_texture(&desc));
    assert!(error.unwrap().contains("TEXTURE_COMPRESSION_BC"));
    let with = noop_device(wgt::Features::TEXTURE_COMPRESSION_BC);
    let (_, error) = catch(&with, || with.create_texture(&desc));
    assert_eq!(error, None);
}

#[test]
fn views_go_with_their_texture() {
    let device = device();
    let base = device.memory_report();
    let texture = device.create_texture(&descriptor("atlas"));
    let views: Vec<_> = (0..3)
        .map(|_| texture.create_view(&Default::default()))
        .collect();
    assert_eq!(beyond(&device, &base), (4, BYTES));
    drop(views.first().cloned());
    assert_eq!(beyond(&device, &base), (4, BYTES));
    texture.destroy();
    assert_eq!(
        beyond(&device, &base),
        (0, 0),
        "the handles are still there"
    );
    assert!(views.iter().all(|view| view.check_valid().is_ok()));
    drop(views);
}

#[test]
fn views_hold_their_texture() {
    let device = device();
    let base = device.memory_report();
    let texture = device.create_texture(&descriptor("atlas"));
    let view = texture.create_view(&Default::default());
    drop(texture);
    assert_eq!(beyond(&device, &base), (2, BYTES));
    drop(view);
    assert_eq!(beyond(&device, &base), (0, 0));
}

#[test]
fn dropped_views_leave_nothing_behind() {
    let device = device();
    let texture = device.create_texture(&descriptor("atlas"));
    let base = device.memory_report();
    for _ in 0..1000 {
        drop(texture.create_view(&Default::default()));
        assert_eq!(beyond(&device, &base), (0, 0));
    }
    let children = format!("{:?}", texture.children);
    assert!(children.contains("{}"), "{children}");
}

#[test]
fn a_view_of_a_destroyed_texture_is_no_error() {
    let device = device();
    let base = device.memory_report();
    let texture = device.create_texture(&descriptor("atlas"));
    texture.destroy();
    let (view, error) = catch(&device, || texture.create_view(&Default::default()));
    assert_eq!(error, None);
    assert!(view.check_valid().is_ok() && !view.body.is_present());
    assert_eq!(beyond(&device, &base), (0, 0));
    // Its rules hold all the same.
    let desc = TextureViewDescriptor {
        base_array_layer: 2,
        ..Default::default()
    };
    let (_, error) = catch(&device, || texture.create_view(&desc));
    assert!(error.unwrap().contains("no array layers"));
}

#[test]
fn a_view_for_copies_alone_takes_no_object() {
    let device = device();
    let texture = device.create_texture(&TextureDescriptor {
        usage: wgt::TextureUsages::COPY_SRC | wgt::TextureUsages::COPY_DST,
        ..descriptor("atlas")
    });
    let base = device.memory_report();
    let (view, error) = catch(&device, || texture.create_view(&Default::default()));
    assert_eq!((error, beyond(&device, &base)), (None, (0, 0)));
    let ty = wgt::BindingType::Texture {
        sample_type: wgt::TextureSampleType::Float { filterable: true },
        view_dimension: wgt::TextureViewDimension::D2Array,
        multisampled: false,
    };
    let error = view.check_binding(&ty).unwrap_err().to_string();
    assert!(error.contains("TEXTURE_BINDING"), "{error}");
}

#[test]
fn views_made_while_their_texture_is_destroyed_are_not_missed() {
    let device = device();
    let base = device.memory_report();
    for _ in 0..300 {
        let texture = device.create_texture(&descriptor("contested"));
        let views: Vec<Arc<TextureView>> = std::thread::scope(|scope| {
            let makers: Vec<_> = (0..2)
                .map(|_| {
                    scope.spawn(|| {
                        (0..8)
                            .map(|_| texture.create_view(&Default::default()))
                            .collect::<Vec<_>>()
                    })
                })
                .collect();
            scope.spawn(|| texture.destroy());
            makers
                .into_iter()
                .flat_map(|maker| maker.join().unwrap())
                .collect()
        });
        // The texture and all views are held, and none of them takes memory.
        assert_eq!(beyond(&device, &base), (0, 0));
        assert!(views.iter().all(|view| view.check_valid().is_ok()));
    }
}

#[test]
fn a_destroyed_device_makes_nothing_and_reports_nothing() {
    let device = device();
    let texture = device.create_texture(&descriptor("before"));
    device.destroy();
    let (after, error) = catch(&device, || device.create_texture(&descriptor("after")));
    assert_eq!(error, None);
    assert!(after.check_valid().is_err());
    let (view, error) = catch(&device, || texture.create_view(&Default::default()));
    assert_eq!(error, None);
    assert!(view.check_valid().is_err());
}

#[test]
fn samplers_and_query_sets_are_freed() {
    let device = noop_device(wgt::Features::TIMESTAMP_QUERY);
    let base = device.memory_report();
    let sampler = device.create_sampler(&Default::default());
    let set = device.create_query_set(&crate::resource::QuerySetDescriptor {
        label: Some("times"),
        ty: wgt::QueryType::Timestamp,
        count: 4,
    });
    assert_eq!(beyond(&device, &base), (2, 32));
    set.destroy();
    set.destroy();
    assert_eq!(beyond(&device, &base), (1, 0));
    assert_eq!((set.label(), set.count()), ("times", 4));
    drop(sampler);
    assert_eq!(beyond(&device, &base), (0, 0));

    let (sampler, error) = catch(&device, || {
        device.create_sampler(&crate::resource::SamplerDescriptor {
            label: Some("sharp"),
            anisotropy_clamp: 0,
            ..Default::default()
        })
    });
    let error = error.unwrap();
    assert!(
        error.contains("Sampler \"sharp\": anisotropy_clamp is 0"),
        "{error}"
    );
    assert!(sampler.check_valid().is_err());
    let (set, error) = catch(&device, || {
        device.create_query_set(&crate::resource::QuerySetDescriptor {
            label: Some("statistics"),
            ty: wgt::QueryType::PipelineStatistics(wgt::PipelineStatisticsTypes::all()),
            count: 1,
        })
    });
    let error = error.unwrap();
    assert!(error.contains("PIPELINE_STATISTICS_QUERY"), "{error}");
    assert!(set.check_valid().is_err());
}
