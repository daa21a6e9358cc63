-- What proposals, the gate and ramps need of the control schema.

