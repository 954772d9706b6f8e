#include "sharing/hand_over.h"
