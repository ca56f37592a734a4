// Fp: the base field of BLS12-381.
#pragma once

#include "field.cuh"
