// The call behind a form, as curl and as code, while the form is filled in. Both follow from the call itself.
import { useState } from 'react';
import { type Client, describeCall } from '../../../src/client/index.ts';
import { CodeBlock } from '../ui/data/code_block.tsx';
import styles from './call_preview.module.css';
import { curlText } from './curl_text.ts';

interface CallPreviewProps {
  readonly call: (client: Client) => unknown;
  /** Not shown, wherever it is part of the call. */
  readonly secret?: string | undefined;
}

const languages = { curl: 'curl', client: 'TypeScript' } as const;
type Language = keyof typeof languages;

export function CallPreview({ call, secret = '' }: CallPreviewProps) {
  const [language, setLanguage] = useState<Language>('curl');
  const described = describeCall(call);
  const text = language === 'curl' ? curlText(described, location.origin) : `await ${described.code};`;
  const shown = secret === '' ? text : text.replaceAll(JSON.stringify(secret), '"…"');
  return (
    <details className={styles.preview} open={matchMedia('(min-width: 721px)').matches}>
      <summary>Equivalent call</summary>
      <fieldset className={styles.languages}>
        <legend className="visually-hidden">Language</legend>
        {Object.entries(languages).map(([value, label]) => (
          <label key={value}>
            <input
              type="radio"
              name="language"
              checked={language === value}
              onChange={() => setLanguage(value as Language)}
            />
            {label}
          </label>
        ))}
      </fieldset>
      <CodeBlock code={shown} label="equivalent call" />
    </details>
  );
}
