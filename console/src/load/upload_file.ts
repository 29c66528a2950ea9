// Sends a file to an upload of the server, with progress; fetch reports none for what it sends.
import { client } from '../app/session.ts';

interface UploadOptions {
  /** From 0 to 1. */
  readonly onProgress: (progress: number) => void;
  readonly signal: AbortSignal;
}

/** A file that the server has. */
export interface UploadedFile {
  readonly uploadId: string;
  /** By the clock of the server, before the file was sent. */
  readonly createdAt: string;
}

/** Rejects with the signal's reason when it is aborted. */
export async function uploadFile(file: File, { onProgress, signal }: UploadOptions): Promise<UploadedFile> {
  const { uploadId, link, createdAt } = await client.uploads.create({ name: file.name, bytes: file.size }, { signal });
  if (link === undefined) throw new Error('the server sent no link for the file');
  await send(file, link, { onProgress, signal });
  return { uploadId, createdAt };
}

function send(file: File, link: string, { onProgress, signal }: UploadOptions): Promise<void> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open('PUT', link);
    request.upload.onprogress = ({ loaded }) => onProgress(file.size === 0 ? 1 : loaded / file.size);
    request.onload = () => {
      if (request.status < 300) resolve();
      else reject(new Error(messageIn(request.responseText) ?? `the server answered with status ${request.status}`));
    };
    request.onerror = () => reject(new Error('the connection was lost while the file was sent'));
    request.onabort = () => reject(signal.reason);
    signal.addEventListener('abort', () => request.abort(), { once: true });
    request.send(file);
  });
}

function messageIn(text: string): string | undefined {
  try {
    return (JSON.parse(text) as { readonly message?: string }).message;
  } catch {
    return undefined;
  }
}
