# SPDX-License-Identifier: Apache-2.0
#
# Sourced by setup and sim, from the root of the tree: where NVIDIA's run-time compiler is.

# The library's path, or nothing: the one that is named, a toolkit's, or the one that setup fetched.
nvrtc_library() {
    local file
    for file in "${NIB_NVRTC_LIBRARY:-}" "${CUDA_HOME:-/usr/local/cuda}"/lib64/libnvrtc.so.13 \
        /usr/lib/*-linux-gnu/libnvrtc.so.13 "$PWD"/build/toolkit/nvidia/cu13/lib/libnvrtc.so.13; do
        [ -r "$file" ] && echo "$file" && return
    done
    return 0
}
