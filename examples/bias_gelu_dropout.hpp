#include <kiln/tl.hpp>

// out = dropout(gelu(x + bias), p) of a dense matrix of `columns` columns: a program does BLOCK_SIZE of them in one
// row. Three ops in one pass over memory. Column c of row r takes number c % 4 of Philox block r * ceil(columns / 4) +
// c / 4, so what is dropped depends on the seed and the place alone, and not on BLOCK_SIZE or the device.
template <typename T, int BLOCK_SIZE>
KILN_KERNEL void bias_gelu_dropout(const T* x, const T* bias, T* out, tl::int64_t columns, float p, tl::int64_t seed) {
  const auto row = tl::program_id(0);
  const auto first = tl::program_id(1) * BLOCK_SIZE;
  const auto column = first + tl::arange<BLOCK_SIZE>();
  const auto mask = column < columns;

  const auto h =
      tl::cast<float>(tl::load(x + row * columns + column, mask)) + tl::cast<float>(tl::load(bias + column, mask));
  const auto gelu = 0.5f * h * (1.0f + tl::tanh(0.7978845608f * (h + 0.044715f * h * h * h)));

  const auto uniform = [](const tl::PhiloxWords& words) {
    tl::Drawn<float, 4> drawn;
    for (int i = 0; i < 4; ++i) drawn.element[i] = tl::uniform_float(words.word[i]);
    return drawn;
  };
  const auto block = static_cast<tl::uint64_t>(row * ((columns + 3) / 4) + first / 4);
  const auto keys = tl::philox_keys(static_cast<tl::uint64_t>(seed));
  const auto kept = tl::draw_tile<BLOCK_SIZE>(keys, block, uniform) >= p;
  tl::store(out + row * columns + column, tl::cast<T>(tl::where(kept, gelu * (1.0f / (1.0f - p)), 0.0f)), mask);
}
