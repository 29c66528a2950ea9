// The title of the document: the name of the page, its room, and Tabularium.
import { useEffect } from 'react';

const parts: { name?: string | undefined; room?: string | undefined } = {};

function usePart(part: keyof typeof parts, text: string | undefined): void {
  useEffect(() => {
    const show = (value: string | undefined): void => {
      parts[part] = value;
      document.title = [parts.name, parts.room, 'Tabularium'].filter((shown) => shown !== undefined).join(' · ');
    };
    show(text);
    return () => show(undefined);
  }, [part, text]);
}

/** Of the frame. */
export const useRoomTitle = (room: string | undefined): void => usePart('room', room);

/** Of a page in a room: the name of what it shows. */
export const usePageTitle = (name: string | undefined): void => usePart('name', name);
