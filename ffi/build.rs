//! How the shared library is linked: never unloaded, since its threads outlive any `dlclose`, and named after its ABI.

/// `CENOTE_ABI_VERSION_MAJOR` of `src/version.rs`. A test compares the two.
const ABI_VERSION_MAJOR: u32 = 0;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux") {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libcenote.so.{ABI_VERSION_MAJOR}");
    }
}
