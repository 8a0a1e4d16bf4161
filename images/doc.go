// SPDX-License-Identifier: MIT

// Package images makes the sandbox image and gives it to the world: names and references,
// the lock of everything that goes into a build, the build and its inspection on one side;
// on the other publishing exactly the bytes that were proven, their signature, SBOM and
// provenance, verifying all of that from a registry, moving tags and moving them back. What
// proves a built image is package smoke below it; the two halves meet in an OCI layout, a
// digest and a [Proof]. Publishing never builds, never changes a byte, never moves a tag to
// what it has not read back and verified, and reads no environment: who may publish under
// the production name is told to it with a [Run].
package images
