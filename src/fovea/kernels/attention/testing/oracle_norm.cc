#include <cmath>

#include "fovea/kernels/attention/testing/oracle.h"

namespace fovea::kernels {
namespace {

using Values = std::vector<double>;

double mean(const Values& x) {
  double sum = 0;
  for (const double value : x) sum += value;
  return sum / static_cast<double>(x.size());
}
double mean_square(const Values& x) {
  double sum = 0;
  for (const double value : x) sum += value * value;
  return sum / static_cast<double>(x.size());
}
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double inverse_root(const Values& x) { return 1 / std::sqrt(mean_square(x) + kNormEpsilon); }

Values centred(const Values& z) {
  Values out = z;
  const double centre = mean(z);
  for (double& x : out) x -= centre;
  return out;
}

// y = gain z r (sigmoid(gate z) when gated), r the inverse root of the mean square.
Values rms(const OracleNormInput& in, bool gated) {
  const double r = inverse_root(in.z);
  Values y;
  for (size_t i = 0; i < in.z.size(); ++i)
    y.push_back(in.gain[i] * in.z[i] * r * (gated ? sigmoid(in.gate[i] * in.z[i]) : 1));
  return y;
}

// Gradient of x -> x r(x) given that of its result, u.
Values rms_back(const Values& x, const Values& u) {
  const double r = inverse_root(x);
  double along = 0;
  for (size_t i = 0; i < x.size(); ++i) along += u[i] * x[i];
  Values out;
  for (size_t i = 0; i < x.size(); ++i)
    out.push_back(r * u[i] - x[i] * r * r * r * along / static_cast<double>(x.size()));
  return out;
}

OracleNormGradients rms_norm_back(const OracleNormInput& in, const Values& grad, bool gated) {
  OracleNormGradients out;
  const double r = inverse_root(in.z);
  Values u;
  for (size_t i = 0; i < in.z.size(); ++i) {
    const double s = gated ? sigmoid(in.gate[i] * in.z[i]) : 1;
    u.push_back(grad[i] * in.gain[i] * s);
    out.gain.push_back(grad[i] * in.z[i] * r * s);
  }
  out.z = rms_back(in.z, u);
  for (size_t i = 0; gated && i < in.z.size(); ++i) {
    const double s = sigmoid(in.gate[i] * in.z[i]);
    const double through = grad[i] * in.gain[i] * in.z[i] * r * s * (1 - s);  // d loss / d (gate z)
    out.z[i] += through * in.gate[i];
    out.gate.push_back(through * in.z[i]);
  }
  return out;
}

Values apply(const NoNorm&, const OracleNormInput& in) { return in.z; }
Values apply(const RmsNorm&, const OracleNormInput& in) { return rms(in, false); }
Values apply(const RmsNormXavier&, const OracleNormInput& in) { return rms(in, false); }
Values apply(const GatedRmsNorm&, const OracleNormInput& in) { return rms(in, true); }
Values apply(const LayerNorm&, const OracleNormInput& in) {
  const Values c = centred(in.z);
  const double r = inverse_root(c);
  Values y;
  for (size_t i = 0; i < c.size(); ++i) y.push_back(in.gain[i] * c[i] * r + in.bias[i]);
  return y;
}
// y = sigmoid(gate z) (gain c r + bias), where c = z - mean(z) and r is the inverse root of the mean square of c.
Values apply(const GatedLayerNorm&, const OracleNormInput& in) {
  const Values c = centred(in.z);
  const double r = inverse_root(c);
  Values y;
  for (size_t i = 0; i < c.size(); ++i)
    y.push_back(sigmoid(in.gate[i] * in.z[i]) * (in.gain[i] * c[i] * r + in.bias[i]));
  return y;
}

OracleNormGradients back(const NoNorm&, const OracleNormInput&, const Values& grad) { return {grad, {}, {}, {}}; }
OracleNormGradients back(const RmsNorm&, const OracleNormInput& in, const Values& grad) {
  return rms_norm_back(in, grad, false);
}
OracleNormGradients back(const RmsNormXavier&, const OracleNormInput& in, const Values& grad) {
  return rms_norm_back(in, grad, false);
}
OracleNormGradients back(const GatedRmsNorm&, const OracleNormInput& in, const Values& grad) {
  return rms_norm_back(in, grad, true);
}
OracleNormGradients back(const LayerNorm&, const OracleNormInput& in, const Values& grad) {
  OracleNormGradients out;
  const Values c = centred(in.z);
  const double r = inverse_root(c);
  Values u;
  for (size_t i = 0; i < c.size(); ++i) {
    u.push_back(grad[i] * in.gain[i]);
    out.gain.push_back(grad[i] * c[i] * r);
  }
  out.bias = grad;
  out.z = centred(rms_back(c, u));  // the gradient of centring is centring
  return out;
}
OracleNormGradients back(const GatedLayerNorm&, const OracleNormInput& in, const Values& grad) {
  OracleNormGradients out;
  const Values c = centred(in.z);
  const double r = inverse_root(c);
  Values u, through_gate;
  for (size_t i = 0; i < c.size(); ++i) {
    const double s = sigmoid(in.gate[i] * in.z[i]);
    const double to_gate = grad[i] * (in.gain[i] * c[i] * r + in.bias[i]) * s * (1 - s);  // d loss / d (gate z)
    u.push_back(grad[i] * in.gain[i] * s);
    through_gate.push_back(to_gate * in.gate[i]);
    out.gain.push_back(grad[i] * c[i] * r * s);
    out.gate.push_back(to_gate * in.z[i]);
    out.bias.push_back(grad[i] * s);
  }
  out.z = centred(rms_back(c, u));
  for (size_t i = 0; i < c.size(); ++i) out.z[i] += through_gate[i];
  return out;
}

}  // namespace

Values oracle_norm(const OracleNormInput& input) {
  return std::visit([&](const auto& norm) { return apply(norm, input); }, input.norm);
}

OracleNormGradients oracle_norm_backward(const OracleNormInput& input, const Values& grad_out) {
  return std::visit([&](const auto& norm) { return back(norm, input, grad_out); }, input.norm);
}

}  // namespace fovea::kernels
