// How programs connect: a token, and the first request in three languages.
import { useState } from 'react';
import { client, useSessionState } from '../app/session.ts';
import { Button } from '../ui/button.tsx';
import { CodeBlock } from '../ui/data/code_block.tsx';
import { ErrorPanel } from '../ui/error_panel.tsx';
import { Spinner } from '../ui/feedback.tsx';
import { Tabs } from '../ui/layout/tabs.tsx';
import styles from './start_room.module.css';

const languages = ['curl', 'TypeScript', 'Python'] as const;
type Language = (typeof languages)[number];

const url = location.origin;
const snippets: Readonly<Record<Language, string>> = {
  curl: `curl -s ${url}/api/v2/catalogs/default/query \\
  -H "Authorization: Bearer $TOKEN" -H "Content-Type: application/json" \\
  -d '{"sql": "SELECT 42 AS answer"}'`,
  TypeScript: `// npm install tabularium
import { createClient } from 'tabularium/client';

const client = createClient({ url: '${url}', token: process.env.TOKEN ?? '' });
for await (const row of client.query('SELECT 42 AS answer')) console.log(row);`,
  Python: `import json, os, urllib.request

request = urllib.request.Request(
    "${url}/api/v2/catalogs/default/query",
    data=json.dumps({"sql": "SELECT 42 AS answer"}).encode(),
    headers={"Authorization": f"Bearer {os.environ['TOKEN']}", "Content-Type": "application/json"},
)
print(json.load(urllib.request.urlopen(request))["result"]["rows"])`,
};

export function Connect() {
  const [language, setLanguage] = useState<Language>('curl');
  return (
    <section className={styles.panel} aria-labelledby="connect">
      <h2 id="connect">Connect</h2>
      <p className={styles.hint}>
        Programs use the REST API with a token in the variable <code>TOKEN</code>.
      </p>
      <NewToken />
      <Tabs
        label="Languages"
        value={language}
        onChange={setLanguage}
        tabs={languages.map((name) => ({
          value: name,
          label: name,
          content: <CodeBlock label={name} code={snippets[name]} isWrapped />,
        }))}
      />
    </section>
  );
}

/** A token for programs, whose secret is shown once. */
function NewToken() {
  const { session } = useSessionState() as { session?: { user: string } };
  const [isBusy, setIsBusy] = useState(false);
  const [secret, setSecret] = useState<string>();
  const [error, setError] = useState<unknown>();
  const create = async () => {
    if (!session) return;
    setIsBusy(true);
    setError(undefined);
    try {
      const name = `console ${new Date().toISOString().slice(0, 19).replace('T', ' ')}`;
      const made = await client.users(session.user).tokens.create({ name }, { idempotencyKey: false });
      setSecret(made.secret);
    } catch (failure) {
      setError(failure);
    }
    setIsBusy(false);
  };
  if (secret !== undefined)
    return (
      <>
        <CodeBlock label="Token" code={`export TOKEN=${secret}`} />
        <p className={styles.hint}>It is shown this once, and expires after 90 days.</p>
      </>
    );
  return (
    <div>
      <Button disabled={isBusy} onClick={() => void create()}>
        {isBusy && <Spinner label="Creating a token" />}
        Create a token
      </Button>
      {error !== undefined && <ErrorPanel title="The token could not be created" error={error} />}
    </div>
  );
}
