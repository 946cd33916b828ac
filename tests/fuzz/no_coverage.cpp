// The objects of the fuzzers report the places that they reach. A program that is no fuzzer ignores
// it.
extern "C" void __sanitizer_cov_trace_pc();
extern "C" void __sanitizer_cov_trace_pc() {}
