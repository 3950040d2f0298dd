//! The C ABI from C: programs in this folder and in `examples`, built as strictly as they come and run under ASan and UBSan
//! against real servers.

mod examples;
mod install;
mod misuse;
mod process;
mod program;
mod results;
