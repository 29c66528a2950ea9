// The fenced blocks of the documents, with their language, and those that no test executes, each with its reason.
import { globSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';

const root = resolve(import.meta.dirname, '../..');

export interface CodeBlock {
  readonly document: string;
  readonly line: number;
  /** Empty if the block names none. */
  readonly language: string;
  readonly text: string;
  /** A block of text that follows directly: what it prints. */
  readonly shown: string | undefined;
}

export const documents: readonly string[] = ['README.md', ...globSync('docs/*.md', { cwd: root }).sort()];
export const textOf = (document: string): string => readFileSync(join(root, document), 'utf8');

export function blocksOf(document: string): CodeBlock[] {
  const text = textOf(document);
  const found = [...text.matchAll(/^( *)```(\w*)\n(.*?)^ *```\n/gms)];
  return found.map((match, i) => {
    const [whole, , language, content] = match as unknown as [string, string, string, string];
    const next = found[i + 1];
    const isShown =
      next !== undefined && next[2] === 'text' && text.slice(match.index + whole.length, next.index).trim() === '';
    return {
      document,
      line: text.slice(0, match.index).split('\n').length,
      language,
      text: content,
      shown: isShown ? next[3] : undefined,
    };
  });
}

interface Exception {
  readonly document: string;
  readonly language: string;
  /** How the blocks begin; all of that language in the document, if it is empty. */
  readonly start: string;
  readonly reason: string;
}

/** A new one needs a reason of this kind: it changes the machine of whoever runs the tests, or another test executes it. */
export const notExecuted: readonly Exception[] = [
  {
    document: 'README.md',
    language: 'sh',
    start: 'npm ci && npm start',
    reason: 'it installs the packages of the project; CI runs it in a container without them',
  },
  {
    document: 'docs/backup.md',
    language: 'sh',
    start: 'tabularium --backup-directories',
    reason: 'it starts a server with the flags that the server of the test has',
  },
  {
    document: 'docs/backup.md',
    language: 'sh',
    start: 'TABULARIUM_BACKUP_PASSPHRASE=… tabularium',
    reason: 'it starts a server, or creates one in /srv; tests/backups does so in directories of its own',
  },
  {
    document: 'docs/cookbook.md',
    language: 'sh',
    start: '',
    reason: 'tests/docs/cookbook.test.ts executes it, with a server that the page itself starts and stops',
  },
  {
    document: 'docs/operations.md',
    language: 'sh',
    start: 'deploy/compose/make_secrets.sh',
    reason: 'it starts containers, which CI cannot; tests/package/deploy/compose.test.ts checks what it starts',
  },
  {
    document: 'docs/clickhouse.md',
    language: 'sql',
    start: 'GRANT SHOW',
    reason:
      'an operator executes it on ClickHouse; tests/package/deploy/clickhouse.test.ts compares it with the grants that the tests have',
  },
  ...[
    'curl -s -H "$AUTH" -H "$JSON" $URL/api/v2/warehouses -d \'{"name": "cluster"',
    'curl -s -H "$AUTH" -H "$JSON" $URL/api/v2/catalogs/default/move',
  ].map((start) => ({
    document: 'docs/operations.md',
    language: 'sh',
    start,
    reason: 'it needs a ClickHouse cluster; tests/servers/clusters and tests/demo create such warehouses',
  })),
  {
    document: 'docs/operations.md',
    language: 'sh',
    start: 'docker build -f deploy/Dockerfile -t REGISTRY',
    reason: 'it needs a Kubernetes cluster; tests/package/deploy/chart.test.ts checks what it installs',
  },
  {
    document: 'docs/postgresql.md',
    language: 'sh',
    start: 'tabularium store migrate',
    reason: 'it moves the store of an installed server to another machine; tests/store_migrate does so on this one',
  },
  {
    document: 'docs/releasing.md',
    language: 'sh',
    start: '',
    reason: 'it makes, tags and publishes a release',
  },
  {
    document: 'docs/versioning.md',
    language: 'ts',
    start: 'get: get(',
    reason: 'it is a part of a declaration, which tests/standard/versions.test.ts serves',
  },
  {
    document: 'docs/lint_rules.md',
    language: 'yaml',
    start: '',
    reason: 'tests/rest_standard/rules.test.ts checks the examples, and tests/spectral runs Spectral with the ruleset',
  },
  {
    document: 'docs/python.md',
    language: 'python',
    start: '',
    reason: 'tests/clients/python_documentation.test.ts executes it where its packages are installed',
  },
];

export const exceptionOf = ({ document, language, text }: CodeBlock): Exception | undefined =>
  notExecuted.find(
    (one) => one.document === document && one.language === language && (one.start === '' || text.startsWith(one.start)),
  );
