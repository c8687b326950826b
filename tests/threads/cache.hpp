#pragma once

void run_caches();
