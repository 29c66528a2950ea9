-- Star Schema Benchmark: who bought. 30,000 rows at scale 1.
CREATE TABLE customer (
  c_custkey INTEGER NOT NULL PRIMARY KEY,
  c_name VARCHAR(25) NOT NULL,
  c_address VARCHAR(25) NOT NULL,
  c_city VARCHAR(10) NOT NULL,
  c_nation VARCHAR(15) NOT NULL,
  c_region VARCHAR(12) NOT NULL,
  c_phone VARCHAR(15) NOT NULL,
  c_mktsegment VARCHAR(10) NOT NULL
);
