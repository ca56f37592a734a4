// Fr: the scalar field of BLS12-381.
#pragma once

#include "field.cuh"
