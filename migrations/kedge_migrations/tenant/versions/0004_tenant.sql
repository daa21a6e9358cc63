-- What proposals, the gate and ramps need of one tenant's record.

