#include "model/student_t.hpp"

#include <boost/math/distributions/students_t.hpp>

namespace tessera {

double student_t_above(double t, double freedom) {
  return boost::math::cdf(boost::math::complement(boost::math::students_t(freedom), t));
}

double student_t_limit(double confidence, double freedom) {
  return boost::math::quantile(
      boost::math::complement(boost::math::students_t(freedom), (1 - confidence) / 2));
}

}  // namespace tessera
