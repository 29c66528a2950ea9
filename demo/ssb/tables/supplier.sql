-- Star Schema Benchmark: who delivered. 2,000 rows at scale 1.
CREATE TABLE supplier (
  s_suppkey INTEGER NOT NULL PRIMARY KEY,
  s_name VARCHAR(25) NOT NULL,
  s_address VARCHAR(25) NOT NULL,
  s_city VARCHAR(10) NOT NULL,
  s_nation VARCHAR(15) NOT NULL,
  s_region VARCHAR(12) NOT NULL,
  s_phone VARCHAR(15) NOT NULL
);
