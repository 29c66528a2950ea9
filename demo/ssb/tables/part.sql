-- Star Schema Benchmark: what was sold. 200,000 rows at scale 1.
CREATE TABLE part (
  p_partkey INTEGER NOT NULL PRIMARY KEY,
  p_name VARCHAR(22) NOT NULL,
  p_mfgr VARCHAR(6) NOT NULL,
  p_category VARCHAR(7) NOT NULL,
  p_brand1 VARCHAR(9) NOT NULL,
  p_color VARCHAR(11) NOT NULL,
  p_type VARCHAR(25) NOT NULL,
  p_size INTEGER NOT NULL,
  p_container VARCHAR(10) NOT NULL
);
