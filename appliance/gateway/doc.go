// SPDX-License-Identifier: MIT

// Package gateway hosts the profiles of a home in one process: who may run it (Claim), what
// others may see of it (StateFile), which profile a request is for, the turns of each, and how
// it starts and ends. It never lets one profile's request, turn or failure reach another's,
// and never answers for a profile that it cannot bind.
package gateway
