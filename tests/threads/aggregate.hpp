#pragma once

void aggregate_rows();
