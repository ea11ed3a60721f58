//! Software drivers and validation layers: finding them, and on Debian and its kin installing them.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::shell;

/// A software Vulkan driver.
pub const FOR_DEMO: [&str; 2] = ["mesa-vulkan-drivers", "libvulkan1"];

/// What the tests run on: Vulkan and its validation layer, GL through EGL.
pub const FOR_TESTS: [&str; 5] = [
    "mesa-vulkan-drivers",
    "libvulkan1",
    "vulkan-validationlayers",
    "libegl1",
    "libgl1-mesa-dri",
];

/// Where Debian's package chromium-common puts SwiftShader and its Khronos layer.
const CHROMIUM: &str = "usr/lib/chromium";

fn debian_like() -> bool {
    shell::on_path("apt-get") && shell::on_path("dpkg-query")
}

fn installed(package: &str) -> bool {
    shell::output(Command::new("dpkg-query").args(["-W", "-f=${Status}", package]))
        .is_some_and(|status| status == "install ok installed")
}

/// `apt-get` with the rights to install, or `None`.
fn apt_get() -> Option<Command> {
    let root = shell::output(Command::new("id").arg("-u")).is_some_and(|id| id.trim() == "0");
    let mut command = if root {
        Command::new("apt-get")
    } else if shell::on_path("sudo") {
        let mut sudo = Command::new("sudo");
        sudo.args(["-E", "apt-get"]);
        sudo
    } else {
        return None;
    };
    command.env("DEBIAN_FRONTEND", "noninteractive");
    Some(command)
}

/// Installs those of `packages` that are missing. The error says what the user has to do instead.
pub fn install(packages: &[&str]) -> Result<(), String> {
    if !debian_like() {
        return Err(format!(
            "this is no Debian-like system: install the packages that correspond to Debian's {}",
            packages.join(", ")
        ));
    }
    let missing: Vec<&str> = packages.iter().copied().filter(|p| !installed(p)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let by_hand = format!("install by hand: apt-get install {}", missing.join(" "));
    let apt = || apt_get().ok_or_else(|| format!("neither root nor sudo here; {by_hand}"));
    shell::run(apt()?.arg("update")).map_err(|error| format!("{error}; {by_hand}"))?;
    shell::run(
        apt()?
            .args(["install", "-y", "--no-install-recommends"])
            .args(&missing),
    )
    .map_err(|error| format!("{error}; {by_hand}"))
}

/// The folder with Chromium's SwiftShader and Khronos layer. Without it, that
/// package is fetched and unpacked among the build outputs: the two libraries need nothing but the C
/// library, and the rest of a browser can stay away.
fn chromium() -> Result<PathBuf, String> {
    let system = Path::new("/").join(CHROMIUM);
    let drivers = shell::target().join("drivers");
    let unpacked = drivers.join(CHROMIUM);
    for dir in [&system, &unpacked] {
        if dir.join("libvk_swiftshader.so").exists() {
            return Ok(dir.clone());
        }
    }
    if !debian_like() {
        return Err("SwiftShader is taken from Debian's package chromium-common, and this is no Debian-like system".into());
    }
    std::fs::create_dir_all(&drivers).map_err(|error| format!("{}: {error}", drivers.display()))?;
    let download = || {
        shell::run(
            Command::new("apt-get")
                .args(["download", "chromium-common"])
                .current_dir(&drivers),
        )
    };
    if download().is_err() {
        // The package lists may be missing or older than the mirror.
        if let Some(mut apt) = apt_get() {
            shell::run(apt.arg("update"))?;
        }
        download()?;
    }
    let package = std::fs::read_dir(&drivers)
        .map_err(|error| format!("{}: {error}", drivers.display()))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.extension().is_some_and(|e| e == "deb"))
        .ok_or("apt-get download chromium-common left no package")?;
    shell::run(
        Command::new("dpkg-deb")
            .arg("-x")
            .arg(&package)
            .arg(&drivers),
    )?;
    let _ = std::fs::remove_file(&package);
    if unpacked.join("libvk_swiftshader.so").exists() {
        Ok(unpacked)
    } else {
        Err(format!("{} holds no SwiftShader", package.display()))
    }
}

/// SwiftShader's description for the Vulkan loader. The error says why there is none.
pub fn swiftshader() -> Result<PathBuf, String> {
    let manifest = chromium()?.join("vk_swiftshader_icd.json");
    if manifest.exists() {
        Ok(manifest)
    } else {
        Err(format!("{} is missing", manifest.display()))
    }
}

/// A folder for `VK_LAYER_PATH` with the Khronos validation layer that comes with Chromium. It is
/// years newer than Debian's own and comes without a description, which is written here.
pub fn khronos_layer() -> Result<PathBuf, String> {
    let library = chromium()?.join("libVkLayer_khronos_validation.so");
    if !library.exists() {
        return Err(format!("{} is missing", library.display()));
    }
    let dir = shell::target().join("layers");
    let manifest = format!(
        r#"{{ "file_format_version": "1.2.0", "layer": {{
  "name": "VK_LAYER_KHRONOS_validation", "type": "GLOBAL", "library_path": "{}",
  "api_version": "1.4.0", "implementation_version": "1", "description": "Khronos validation layer",
  "instance_extensions": [ {{ "name": "VK_EXT_debug_utils", "spec_version": "2" }} ] }} }}
"#,
        library.display()
    );
    std::fs::create_dir_all(&dir)
        .and_then(|()| std::fs::write(dir.join("VkLayer_khronos_validation.json"), manifest))
        .map_err(|error| format!("{}: {error}", dir.display()))?;
    Ok(dir)
}

/// Lavapipe's description for the Vulkan loader: its name changed between releases of Mesa.
pub fn lavapipe() -> Option<PathBuf> {
    ["/usr/share/vulkan/icd.d", "/usr/local/share/vulkan/icd.d"]
        .iter()
        .filter_map(|dir| std::fs::read_dir(dir).ok())
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("lvp_icd") && name.ends_with(".json") && !name.contains("i686")
        })
}
