// The columns of C of the four MMAs of a 32-column chunk when a lane reads and writes 16 bytes. Any
// permutation of columns among MMAs is correct, since each column is a chain of its own.
#pragma once

namespace tessera {

/// The index, from 0 to 7, of the 16-byte piece (four columns) of a chunk's row that column `group`
/// of each of its four MMAs takes. Lane t holds columns 2t and 2t + 1 of an MMA's result, so four
/// lanes store pieces 0 to 3 or 4 to 7 of a row of C, 64 bytes, at once. Rows are eight floats
/// apart in the banks, and even pieces neighbour odd ones, so the pieces that eight lanes load at
/// once (four rows, two pieces) lie in different banks. Rows begin at multiples of 32 bytes:
/// cp.async reads a sector twice when it writes across such a multiple.
constexpr int place_of_piece(int group) { return group % 2 == 0 ? group / 2 : 4 + (group / 2 ^ 1); }

}  // namespace tessera
