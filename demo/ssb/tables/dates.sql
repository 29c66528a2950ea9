-- Star Schema Benchmark: the benchmark's table "date", every day from 1992 to 1998. 2,557 rows at every scale.
CREATE TABLE dates (
  d_datekey INTEGER NOT NULL PRIMARY KEY,
  d_date VARCHAR(18) NOT NULL,
  d_dayofweek VARCHAR(9) NOT NULL,
  d_month VARCHAR(9) NOT NULL,
  d_year INTEGER NOT NULL,
  d_yearmonthnum INTEGER NOT NULL,
  d_yearmonth VARCHAR(7) NOT NULL,
  d_daynuminweek INTEGER NOT NULL,
  d_daynuminmonth INTEGER NOT NULL,
  d_daynuminyear INTEGER NOT NULL,
  d_monthnuminyear INTEGER NOT NULL,
  d_weeknuminyear INTEGER NOT NULL,
  d_sellingseason VARCHAR(12) NOT NULL,
  d_lastdayinweekfl BOOLEAN NOT NULL,
  d_lastdayinmonthfl BOOLEAN NOT NULL,
  d_holidayfl BOOLEAN NOT NULL,
  d_weekdayfl BOOLEAN NOT NULL
);
