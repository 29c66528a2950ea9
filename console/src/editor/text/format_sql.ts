// Formats SQL; a module of its own, because the formatter is as large as the editor and seldom used.
import { duckdb, formatDialect } from 'sql-formatter';

export const formatSql = (text: string): string =>
  formatDialect(text, { dialect: duckdb, keywordCase: 'upper', tabWidth: 2, linesBetweenQueries: 1 });
