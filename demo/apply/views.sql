-- Views and tables can also be declared in SQL, which the server parses. USE sets the database of the names after it.
USE shop;

CREATE TABLE returns (
  order_id BIGINT PRIMARY KEY,
  reason   VARCHAR(500)
);

CREATE VIEW big_orders AS
SELECT id, customer_id, total FROM orders WHERE total > 1000;

CREATE VIEW big_customers AS
SELECT c.name, sum(o.total) AS total
FROM big_orders o JOIN customers c ON c.id = o.customer_id
GROUP BY c.name;
