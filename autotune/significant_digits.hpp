#pragma once

namespace kiln {

/// The value with so many digits: 1234.5 with 2 is 1200. The same in every locale.
double with_significant_digits(double value, int digits);

}  // namespace kiln
