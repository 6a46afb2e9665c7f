"""Classification and regression tasks, from their published files to fairseq's ``sentence_prediction`` layout."""
