//! Shader modules (specification, section 9 "Shader Modules").
//!
//! A module is parsed, validated and reflected when it is made; the HAL compiles it when a pipeline is
//! made. What went wrong on the way is kept for the compilation information.

use super::Body;
use crate::{
    device::Device,
    error::{invalid, Error, Named, Result},
    validate::interface::Interface,
};
use naga::{error::ShaderError, valid::ModuleInfo, WithSpan};
use std::{borrow::Cow, sync::Arc};
use wgpu_hal as hal;
use wgpu_types as wgt;

/// What a shader module is made from.
// The large variant is moved once, where the others are parsed into it.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ShaderSource<'a> {
    /// WGSL.
    Wgsl(Cow<'a, str>),
    /// The words of a SPIR-V module, in the byte order of this machine.
    #[cfg(feature = "spirv")]
    SpirV(Cow<'a, [u32]>),
    /// GLSL for one stage.
    #[cfg(feature = "glsl")]
    Glsl {
        /// The source.
        shader: Cow<'a, str>,
        /// The stage that its `main` is for.
        stage: naga::ShaderStage,
        /// Macros that are defined before its first line: name and value.
        defines: &'a [(&'a str, &'a str)],
    },
    /// naga's own representation.
    Naga(Cow<'static, naga::Module>),
}

/// Why a shader module could not be made from its source.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum CompilationFailure {
    /// The WGSL could not be parsed.
    Wgsl(ShaderError<naga::front::wgsl::ParseError>),
    /// The SPIR-V could not be read.
    #[cfg(feature = "spirv")]
    SpirV(ShaderError<naga::front::spv::Error>),
    /// The GLSL could not be parsed.
    #[cfg(feature = "glsl")]
    Glsl(ShaderError<naga::front::glsl::ParseErrors>),
    /// The module breaks a rule of shaders, or needs what the device has not enabled.
    Validation(ShaderError<WithSpan<naga::valid::ValidationError>>),
    /// The front end gave up in the middle of the source, with this message.
    Unreadable(String),
}

impl std::fmt::Display for CompilationFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Wgsl(error) => error.fmt(f),
            #[cfg(feature = "spirv")]
            Self::SpirV(error) => error.fmt(f),
            #[cfg(feature = "glsl")]
            Self::Glsl(error) => error.fmt(f),
            Self::Validation(error) => error.fmt(f),
            Self::Unreadable(message) => f.write_str(message),
        }
    }
}

/// A module that naga has validated, and its interface.
#[derive(Debug)]
pub(crate) struct Reflection {
    pub module: naga::Module,
    pub info: ModuleInfo,
    pub interface: Interface,
}

/// A shader module. Made by [`Device::create_shader_module`].
#[derive(Debug)]
pub struct ShaderModule {
    pub(crate) device: Arc<Device>,
    label: String,
    pub(crate) body: Body<Box<dyn hal::DynShaderModule>>,
    reflection: Option<Reflection>,
    failure: Option<CompilationFailure>,
}

impl Device {
    /// Creates a shader module (specification, `GPUDevice.createShaderModule`). `checks` are the safety
    /// checks that are compiled into it; leaving one out is for shaders that are trusted not to need it.
    ///
    /// # Errors
    ///
    /// Reported to the device: a validation error that shows the place in the source, or out of memory.
    /// The module is invalid then, and [`ShaderModule::compilation_failure`] says why.
    pub fn create_shader_module(
        self: &Arc<Self>,
        label: Option<&str>,
        source: ShaderSource<'_>,
        checks: wgt::ShaderRuntimeChecks,
    ) -> Arc<ShaderModule> {
        let mut module = ShaderModule::invalid(self, label.unwrap_or_default());
        let result = module.fill(source, checks);
        self.report_if_err("Device::create_shader_module", result);
        Arc::new(module)
    }
}

impl ShaderModule {
    /// The tombstone of a module that could not be created, or was not yet.
    pub(crate) fn invalid(device: &Arc<Device>, label: &str) -> Self {
        Self {
            device: Arc::clone(device),
            label: label.to_owned(),
            body: Body::Invalid,
            reflection: None,
            failure: None,
        }
    }

    /// The label, empty if there is none.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// Why the module could not be made from its source; `None` if it could.
    pub fn compilation_failure(&self) -> Option<&CompilationFailure> {
        self.failure.as_ref()
    }

    pub(crate) fn name(&self) -> Named<'_> {
        Named {
            kind: "shader module",
            label: &self.label,
        }
    }

    /// What the module contains.
    ///
    /// # Errors
    ///
    /// A validation error if its creation failed.
    pub(crate) fn reflection(&self) -> Result<&Reflection> {
        self.reflection
            .as_ref()
            .filter(|_| self.body.is_valid())
            .ok_or_else(|| invalid!("{} is invalid", self.name()))
    }

    fn fill(&mut self, source: ShaderSource<'_>, checks: wgt::ShaderRuntimeChecks) -> Result<()> {
        let device = Arc::clone(&self.device);
        device.check_alive()?;
        let downlevel = device.adapter.downlevel().flags;
        let compiled = Compiler {
            label: Some(self.label.clone()).filter(|label| !label.is_empty()),
            capabilities: wgpu_naga_bridge::features_to_naga_capabilities(
                device.features,
                downlevel,
            ),
        }
        .compile(source);
        let (reflection, text) = match compiled {
            Ok(compiled) => compiled,
            Err(failure) => {
                let error = invalid!("{}: {failure}", self.name());
                self.failure = Some(failure);
                return Err(error);
            }
        };
        self.body = Body::Live(self.make(&reflection, &text, checks)?);
        self.reflection = Some(reflection);
        Ok(())
    }

    fn make(
        &self,
        reflection: &Reflection,
        text: &str,
        checks: wgt::ShaderRuntimeChecks,
    ) -> Result<Arc<fencepost_lifetime::Slot<Box<dyn hal::DynShaderModule>>>> {
        let device = &self.device;
        let flags = device.adapter.instance().flags();
        let debug = flags.contains(wgt::InstanceFlags::DEBUG) && !text.is_empty();
        let file_name = || match &*self.label {
            "" => "shader".to_owned(),
            label => label.to_owned(),
        };
        let desc = hal::ShaderModuleDescriptor {
            label: device.adapter.hal_label(&self.label),
            runtime_checks: checks,
        };
        let mut refusal = None;
        let slot = device.create(&self.name(), 0, |hal| {
            let shader = hal::ShaderInput::Naga(hal::NagaShader {
                module: Cow::Owned(reflection.module.clone()),
                info: reflection.info.clone(),
                debug_source: debug.then(|| hal::DebugSource {
                    file_name: Cow::Owned(file_name()),
                    source_code: Cow::Owned(text.to_owned()),
                }),
            });
            // SAFETY: the module is valid for the features of the device.
            let made = unsafe { hal.create_shader_module(&desc, shader) };
            made.map_err(|error| match error {
                hal::ShaderError::Device(error) => error,
                hal::ShaderError::Compilation(message) => {
                    refusal = Some(message);
                    hal::DeviceError::Unexpected
                }
            })
        });
        match refusal {
            Some(message) => Err(Error::internal(format!(
                "{}: the driver does not take it: {message}",
                self.name()
            ))),
            None => slot,
        }
    }
}

impl Drop for ShaderModule {
    fn drop(&mut self) {
        self.body.destroy(&self.device.lower);
    }
}

/// From a source to a reflection, for a device with these capabilities.
struct Compiler {
    label: Option<String>,
    capabilities: naga::valid::Capabilities,
}

impl Compiler {
    /// Gives back the source's text as well; it is empty for a source that has none.
    fn compile(
        &self,
        source: ShaderSource<'_>,
    ) -> Result<(Reflection, String), CompilationFailure> {
        let (module, text) = self.parse(source)?;
        let mut validator =
            naga::valid::Validator::new(naga::valid::ValidationFlags::all(), self.capabilities);
        let info = validator
            .validate(&module)
            .map_err(|error| CompilationFailure::Validation(self.error(text.clone(), error)))?;
        let interface = Interface::new(&module, &info);
        let reflection = Reflection {
            module,
            info,
            interface,
        };
        Ok((reflection, text))
    }

    fn parse(
        &self,
        source: ShaderSource<'_>,
    ) -> Result<(naga::Module, String), CompilationFailure> {
        match source {
            ShaderSource::Wgsl(text) => {
                let mut options = naga::front::wgsl::Options::new();
                options.capabilities = self.capabilities;
                let module = naga::front::wgsl::Frontend::new_with_options(options)
                    .parse(&text)
                    .map_err(|error| CompilationFailure::Wgsl(self.error(&*text, error)))?;
                Ok((module, text.into_owned()))
            }
            #[cfg(feature = "spirv")]
            ShaderSource::SpirV(words) => {
                let options = naga::front::spv::Options {
                    adjust_coordinate_space: false,
                    strict_capabilities: true,
                    block_ctx_dump_prefix: None,
                };
                let parse =
                    || naga::front::spv::Frontend::new(words.iter().copied(), &options).parse();
                let module = guard("SPIR-V", parse)?
                    .map_err(|error| CompilationFailure::SpirV(self.error("", error)))?;
                Ok((module, String::new()))
            }
            #[cfg(feature = "glsl")]
            ShaderSource::Glsl {
                shader: text,
                stage,
                defines,
            } => {
                let defines = defines
                    .iter()
                    .map(|&(name, value)| (name.into(), value.into()));
                let options = naga::front::glsl::Options {
                    stage,
                    defines: defines.collect(),
                };
                let parse = || naga::front::glsl::Frontend::default().parse(&options, &text);
                let module = guard("GLSL", parse)?
                    .map_err(|error| CompilationFailure::Glsl(self.error(&*text, error)))?;
                Ok((module, text.into_owned()))
            }
            ShaderSource::Naga(module) => Ok((module.into_owned(), String::new())),
        }
    }

    fn error<E>(&self, text: impl Into<String>, error: E) -> ShaderError<E> {
        ShaderError {
            source: text.into(),
            label: self.label.clone(),
            inner: Box::new(error),
        }
    }
}

/// Runs a front end that panics on some sources rather than return an error, as naga 30's for SPIR-V and
/// GLSL do: one of each is in the tests. Its state is dropped with the panic. In a program that aborts on
/// panic, such a source still ends it.
#[cfg(any(feature = "spirv", feature = "glsl"))]
fn guard<T>(language: &str, parse: impl FnOnce() -> T) -> Result<T, CompilationFailure> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(parse)).map_err(|panic| {
        let reason = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("no reason given");
        CompilationFailure::Unreadable(format!("the {language} is malformed: {reason}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compile(source: ShaderSource<'_>) -> Result<(Reflection, String), CompilationFailure> {
        Compiler {
            label: Some("tint".into()),
            capabilities: naga::valid::Capabilities::default(),
        }
        .compile(source)
    }

    fn wgsl(text: &str) -> Result<(Reflection, String), CompilationFailure> {
        compile(ShaderSource::Wgsl(text.into()))
    }

    #[test]
    fn wgsl_is_reflected() {
        let text = "@compute @workgroup_size(1) fn main() {}";
        let (reflection, kept) = wgsl(text).unwrap();
        assert_eq!(kept, text);
        let entry = reflection
            .interface
            .entry_point(naga::ShaderStage::Compute, None);
        assert_eq!(entry.unwrap().name, "main");
    }

    #[test]
    fn messages_show_the_place() {
        let failure =
            wgsl("@compute @workgroup_size(1) fn main() {\n  let x = nothing;\n}").unwrap_err();
        assert!(matches!(failure, CompilationFailure::Wgsl(_)));
        let message = failure.to_string();
        for part in ["tint", "2:11", "let x = nothing;"] {
            assert!(message.contains(part), "{message}");
        }
        let text = "@group(0) @binding(0) var<uniform> misaligned: array<f32, 4>;";
        let failure = wgsl(text).unwrap_err();
        assert!(
            matches!(failure, CompilationFailure::Validation(_)),
            "{failure}"
        );
        assert!(failure.to_string().contains(text), "{failure}");
    }

    #[test]
    fn capabilities_count() {
        let text = "override x: f64; @compute @workgroup_size(1) fn main() { _ = x; }";
        assert!(wgsl(text).is_err());
        let with = Compiler {
            label: None,
            capabilities: naga::valid::Capabilities::FLOAT64,
        };
        with.compile(ShaderSource::Wgsl(text.into())).unwrap();
    }

    #[test]
    fn nesting_without_end_is_an_error() {
        let text = format!(
            "@compute @workgroup_size(1) fn main() {{ {}{} }}",
            "{".repeat(100_000),
            "}".repeat(100_000)
        );
        assert!(matches!(wgsl(&text), Err(CompilationFailure::Wgsl(_))));
        assert!(matches!(
            wgsl(&"(".repeat(100_000)),
            Err(CompilationFailure::Wgsl(_))
        ));
        assert!(matches!(
            wgsl("\0é\u{202e}"),
            Err(CompilationFailure::Wgsl(_))
        ));
    }

    #[test]
    fn naga_modules_are_validated() {
        let (reflection, _) = wgsl("@compute @workgroup_size(1) fn main() {}").unwrap();
        let mut module = reflection.module;
        compile(ShaderSource::Naga(Cow::Owned(module.clone()))).unwrap();
        module.entry_points[0].workgroup_size = [0; 3];
        let failure = compile(ShaderSource::Naga(Cow::Owned(module))).unwrap_err();
        assert!(matches!(failure, CompilationFailure::Validation(_)));
    }

    #[cfg(feature = "spirv")]
    mod spirv {
        use super::*;

        fn spirv(words: &[u32]) -> Result<(Reflection, String), CompilationFailure> {
            compile(ShaderSource::SpirV(words.into()))
        }

        const HEADER: [u32; 5] = [0x0723_0203, 0x0001_0000, 0, 16, 0];

        #[test]
        fn garbage_is_an_error() {
            for words in [
                &[][..],
                &[0],
                &HEADER[..3],
                &[0x0302_2307, 0x0001_0000, 0, 16, 0],
                &[0x0723_0203, 0x0001_0000, 0, 16, 0, 0],
                &[0x0723_0203, 0x0001_0000, 0, 16, 0, u32::MAX],
            ] {
                let failure = spirv(words).unwrap_err();
                assert!(matches!(failure, CompilationFailure::SpirV(_)), "{words:?}");
            }
        }

        /// An array of 24-bit numbers: naga 30 unwraps the error of the layout.
        #[test]
        fn a_panic_of_the_front_end_is_an_error() {
            const CAPABILITY_SHADER: [u32; 2] = [2 << 16 | 17, 1];
            const MEMORY_MODEL: [u32; 3] = [3 << 16 | 14, 0, 1];
            const FLOAT_24: [u32; 3] = [3 << 16 | 22, 1, 24];
            const RUNTIME_ARRAY: [u32; 3] = [3 << 16 | 29, 2, 1];
            let words = [
                &HEADER[..],
                &CAPABILITY_SHADER,
                &MEMORY_MODEL,
                &FLOAT_24,
                &RUNTIME_ARRAY,
            ]
            .concat();
            let failure = spirv(&words).unwrap_err();
            assert!(
                matches!(failure, CompilationFailure::Unreadable(_)),
                "{failure}"
            );
        }
    }

    #[cfg(feature = "glsl")]
    mod glsl {
        use super::*;

        fn glsl(
            text: &str,
            defines: &[(&str, &str)],
        ) -> Result<(Reflection, String), CompilationFailure> {
            compile(ShaderSource::Glsl {
                shader: text.into(),
                stage: naga::ShaderStage::Compute,
                defines,
            })
        }

        #[test]
        fn macros_are_defined() {
            let text = "#version 450\nlayout(local_size_x = N) in;\nvoid main() {}";
            let (reflection, _) = glsl(text, &[("N", "4")]).unwrap();
            assert_eq!(reflection.module.entry_points[0].workgroup_size, [4, 1, 1]);
            assert!(matches!(glsl(text, &[]), Err(CompilationFailure::Glsl(_))));
        }

        #[test]
        fn garbage_is_an_error() {
            for text in [
                "",
                "#version 450",
                "void main() {",
                "\0",
                "#if",
                "#define A A\nA",
            ] {
                let failure = glsl(text, &[]).unwrap_err();
                assert!(!failure.to_string().is_empty(), "{text:?}");
            }
        }

        /// A descriptor set that is a texture: naga 30 looks it up in the wrong arena.
        #[test]
        fn a_panic_of_the_front_end_is_an_error() {
            let text = "#version 450
                uniform texture2D t;
                layout(set = t) uniform texture2D u;
                void main() {}";
            let failure = glsl(text, &[]).unwrap_err();
            assert!(
                matches!(failure, CompilationFailure::Unreadable(_)),
                "{failure}"
            );
        }
    }
}
