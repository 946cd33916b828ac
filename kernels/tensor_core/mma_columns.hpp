// Which columns of C the MMAs of a chunk of 32 have, where a lane reads and writes 16 bytes: any
// permutation of columns among MMAs is as right, since each column is a chain of its own.
#pragma once

namespace tessera {

/// The 16-byte piece (four columns) of a chunk's rows that MMA columns `group` of its four MMAs
/// are. Column 2t + i of an MMA's result is in lane t, so that four lanes store pieces 0 to 3 or 4
/// to 7 of a row of C, 64 bytes, at once. Rows eight floats apart in the banks, and an even beside
/// an odd piece, make the pieces that eight lanes load at once (four rows, two pieces) lie in
/// different ones. Rows begin at multiples of 32 bytes: what cp.async writes across one it reads
/// twice.
constexpr int place_of_piece(int group) { return group % 2 == 0 ? group / 2 : 4 + (group / 2 ^ 1); }

}  // namespace tessera
