#include "philox.hpp"
