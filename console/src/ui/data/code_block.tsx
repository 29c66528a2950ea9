// Text to copy: a command, a statement, a secret that is shown once.

import { Check, Copy } from 'lucide-react';
import { useEffect, useState } from 'react';
import { IconButton } from '../button.tsx';
import { classNames } from '../class_names.ts';
import { copyText } from '../clipboard.ts';
import styles from './code_block.module.css';

const copiedMs = 1500;

export function CopyButton({
  text,
  label = 'Copy',
}: {
  readonly text: string | (() => string);
  readonly label?: string;
}) {
  const [isCopied, setIsCopied] = useState(false);
  useEffect(() => {
    if (!isCopied) return;
    const timer = setTimeout(() => setIsCopied(false), copiedMs);
    return () => clearTimeout(timer);
  }, [isCopied]);
  const copy = async () => {
    await copyText(typeof text === 'function' ? text() : text);
    setIsCopied(true);
  };
  return (
    <IconButton size="small" label={isCopied ? 'Copied' : label} onClick={() => void copy()}>
      {isCopied ? <Check aria-hidden /> : <Copy aria-hidden />}
    </IconButton>
  );
}

interface CodeBlockProps {
  readonly code: string;
  readonly label: string;
  /** Long lines continue below instead of being scrolled to. */
  readonly isWrapped?: boolean;
}

export function CodeBlock({ code, label, isWrapped = false }: CodeBlockProps) {
  return (
    <div className={classNames(styles.block, isWrapped && styles.wrapped)}>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard */}
      <pre role="region" aria-label={label} tabIndex={0}>
        <code>{code}</code>
      </pre>
      <div className={styles.copy}>
        <CopyButton text={code} label={`Copy ${label}`} />
      </div>
    </div>
  );
}
